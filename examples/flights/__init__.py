"""The demonstration: Airflow, Postgres and Spark on this machine, flight data, DAG runs, and a comparison.

It uses Tidegate as any project does. Reading order: `pipeline`, `data` (its files), `run` (`make demo`), `batch` (the
same result in one computation, to compare with).
"""
