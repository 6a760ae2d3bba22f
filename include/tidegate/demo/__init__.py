"""The demonstration: a real Airflow and Postgres on this machine, real flights, five DAG runs, one comparison.

Reading order: `flights` (the pipeline), `data` (its files), `stack` (Airflow and Postgres, built on `processes` and
`airflow_api`), `run` (what `make demo` runs), `batch` (the same result computed at once, to compare with).
"""
