"""A whole Airflow and its Postgres on one machine, supervised, for laptops and tests; it knows no pipeline.

It imports `embedded_postgres`, `postgres` and `protocol`, and for its tasks what these need. Reading order: `stack`,
`supervisor`, `processes`, `airflow_environment`, `airflow_api`.
"""
