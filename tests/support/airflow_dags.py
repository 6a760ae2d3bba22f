"""DAGs as rows of Airflow's own tables, without a scheduler."""

from datetime import datetime


def schedule(dag_id: str, run_after: datetime | None, **columns: bool) -> None:
    """A DAG as Airflow's scheduler leaves it."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.merge(DagBundleModel(name="dags"))
        session.flush()
        known = {"is_paused": False, "is_stale": False, "fileloc": "dag.py", "bundle_name": "dags"} | columns
        session.merge(DagModel(dag_id=dag_id, next_dagrun_create_after=run_after, **known))
