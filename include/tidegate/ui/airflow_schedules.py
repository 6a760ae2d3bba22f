"""Schedules as Airflow's scheduler has computed them, read from its models in the API server."""

from collections.abc import Collection, Mapping

from airflow.models.dag import DagModel
from airflow.utils.session import create_session

from tidegate.documents.pipeline_models import NextRun


class AirflowSchedules:
    """The schedules of DAGs, read by one query. A DAG whose file is gone is stale, and left out."""

    def next_runs(self, dag_ids: Collection[str]) -> Mapping[str, NextRun]:
        columns = DagModel.dag_id, DagModel.next_dagrun_create_after, DagModel.is_paused
        with create_session() as session:
            rows = session.query(*columns).where(DagModel.dag_id.in_(dag_ids), DagModel.is_stale.is_(False)).all()
        return {
            dag_id: NextRun(dag_id=dag_id, run_after=run_after, is_paused=bool(is_paused))
            for dag_id, run_after, is_paused in rows
        }
