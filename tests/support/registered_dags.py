"""DAGs as the DAG processor leaves them in Airflow's database, for tests that have that database and no scheduler."""

import warnings
from collections.abc import Collection
from typing import Any

_BUNDLE = "dags-folder"


def register(*dags: Any, paused: bool = False) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from airflow.dag_processing.collection import update_dag_parsing_results_in_db
        from airflow.models.dag import DagModel
        from airflow.models.dagbundle import DagBundleModel
        from airflow.serialization.serialized_objects import LazyDeserializedDAG
        from airflow.utils.db import synchronize_log_template
        from airflow.utils.session import create_session

    with create_session(scoped=False) as session:
        synchronize_log_template(session=session)
        if session.get(DagBundleModel, _BUNDLE) is None:
            session.add(DagBundleModel(name=_BUNDLE))
            session.flush()
        found = [LazyDeserializedDAG.from_dag(dag) for dag in dags]
        update_dag_parsing_results_in_db(_BUNDLE, None, found, {}, None, set(), session=session, files_parsed=set())
        session.flush()
        for dag in dags:
            session.get_one(DagModel, dag.dag_id).is_paused = paused


def forget(dag_ids: Collection[str]) -> None:
    """As when their files are gone."""
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session(scoped=False) as session:
        for dag_id in dag_ids:
            session.get_one(DagModel, dag_id).is_stale = True


def runs_of(dag_id: str) -> list[Any]:
    from airflow.models.dagrun import DagRun

    return sorted(DagRun.find(dag_id=dag_id), key=lambda run: run.run_id)
