"""Airflow with Postgres and Spark on one machine, supervised, for the demonstration and for tests.

It knows no pipeline. Reading order: `stack`, `supervisor`, `processes`, `airflow_environment`, `airflow_api`.
"""
