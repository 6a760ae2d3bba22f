"""What Tidegate adds to Airflow's web server: a FastAPI app under `/tidegate`, with every route behind Airflow's login.

May import `protocol` and settings. Reading order: `app` (the routes), `auth` (who may see them), `urls` (where pages of
Airflow point to).
"""
