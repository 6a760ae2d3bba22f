"""A whole Airflow and its Postgres on one machine, supervised, for laptops and tests; it knows no pipeline.

May import `embedded_postgres`, `postgres` and `protocol`, and what its tasks import. Reading order: `stack`,
`supervisor`, `processes`, `airflow_environment`, `airflow_api`.
"""
