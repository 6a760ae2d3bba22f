"""What Tidegate adds to Airflow's web server: a FastAPI app under `/tidegate`, with every route behind Airflow's login.

May ask `reading` and write `documents`. Reading order: `app` (what there is), `auth` (who may see it), `asking` (how a
route gets its answers), `api` and `events` (the routes), `errors`, `stopping`, `urls` (where Airflow's pages point to).
"""
