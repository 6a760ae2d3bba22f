"""The addresses of Tidegate's pages for links from Airflow. Operators import it, so it imports nothing heavy."""

from urllib.parse import quote, urlsplit

PREFIX = "/tidegate"
#: The tag of DAGs that restore pipelines, by which the pages find them.
RESTORES = "tidegate_restore"


def path_in_airflow(path: str) -> str:
    """Return the path of a page of the app, below the path at which Airflow is served, without scheme and host."""
    # Airflow's configuration is slow to import, and a link is only made when it is shown.
    from airflow.configuration import conf

    base = urlsplit(conf.get("api", "base_url", fallback="") or "").path.rstrip("/")
    return f"{base}{PREFIX}{path}"


def docs_url(docs_path: str) -> str:
    """Return the URL of a verdict's `docs_path`."""
    return path_in_airflow(f"/docs/{quote(docs_path)}")


def checkpoint_url(pipeline: str, checkpoint_id: int) -> str:
    return path_in_airflow(f"/pipelines/{quote(pipeline, safe='')}/checkpoints/{checkpoint_id}")


def dag_run_url(dag_id: str, run_id: str) -> str:
    """Return the URL of the page with all requests of a DAG run."""
    return path_in_airflow(f"/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}")
