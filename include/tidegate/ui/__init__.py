"""What Tidegate adds to Airflow's web server: a FastAPI app under `/tidegate`, with every route behind Airflow's login.

May ask `reading` and write `documents`. Reading order: `app` (what there is), `auth` (who may see it), `asking` (how a
route gets its answers), `api` and `events` (the routes), `errors`, `stopping`, `urls` (where Airflow's pages point to).
The pages: `shell` (their frame), `pipeline_pages`, `checkpoint_pages`, `dag_pages`, with `links`, `formatting`,
`wording` and `drawing` for what templates show. Users are Airflow's (`airflow_users`) or one (`one_user`).
"""
