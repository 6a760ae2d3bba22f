"""The demonstration: a real Airflow, Postgres and Spark on this machine, real flights, DAG runs, one comparison.

It uses Tidegate as any project does. Reading order: `pipeline`, `data` (its files), `run` (what `make demo` runs),
`batch` (the same result computed at once, to compare with).
"""
