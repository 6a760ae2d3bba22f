"""What Tidegate adds to Airflow's web server: a FastAPI app under `/tidegate`, every route of it behind Airflow's login.

Reading order: `app` (the routes), `auth` (who may), `links` (where Airflow's pages point to).
"""
