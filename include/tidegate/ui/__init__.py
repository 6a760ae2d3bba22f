"""Tidegate's part of Airflow's web server: a FastAPI app under `/tidegate`, with every route behind Airflow's login.

May read through `reading` and write `documents`. Reading order: `app` (the routes), `auth` (permissions), `asking` (how
a route gets its answers), `api` and `events` (the API), `errors`, `stopping`, `urls` (links from Airflow's pages). The
pages: `shell` (their frame), `pipeline_pages`, `checkpoint_pages`, `dag_pages`, with `links`, `formatting`, `wording`
and `drawing` for their templates. Users are Airflow's (`airflow_users`) or a single one (`one_user`).
"""
