"""Starts DAG runs in the API server, as Airflow's own API does.

Only this module uses `trigger_dag` and the tables of DAGs, which are not declared public. Runs are started with the
name of the requesting user, which Airflow records and passes to their tasks.
"""

from collections.abc import Collection, Mapping
from math import inf
from time import monotonic
from typing import Any

from airflow.api.common.trigger_dag import trigger_dag
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.models.dag import DagModel, DagTag
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import AirflowException
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from fastapi import HTTPException

from tidegate.protocol.facts.errors import ActionRefusedError
from tidegate.ui.dag_runs import RunState
from tidegate.ui.urls import RESTORES

#: Seconds. The pipelines that a DAG restores are in its serialized form, which every page would otherwise read again.
_REMEMBERED, _MISSED = 10.0, 1.0


class AirflowRuns:
    """The DAG runs of the Airflow that serves this app. Thread-safe: each method has a session of its own."""

    def __init__(self) -> None:
        self._restoring: tuple[float, Mapping[str, str]] = -inf, {}

    def active(self, dag_ids: Collection[str]) -> tuple[str, ...]:
        with create_session(scoped=False) as session:
            wanted = DagModel.dag_id.in_(list(dag_ids)), ~DagModel.is_stale
            return tuple(sorted(dag_id for (dag_id,) in session.query(DagModel.dag_id).filter(*wanted)))

    def restoring(self, pipeline: str) -> str | None:
        read_at, by_pipeline = self._restoring
        if monotonic() - read_at > (_REMEMBERED if pipeline in by_pipeline else _MISSED):
            by_pipeline = _read_restoring()
            self._restoring = monotonic(), by_pipeline
        return by_pipeline.get(pipeline)

    def may_start(self, user: Any, dag_id: str) -> bool:
        details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
        request = {"method": "POST", "access_entity": DagAccessEntity.RUN, "details": details, "user": user}
        return bool(get_auth_manager().is_authorized_dag(**request))

    def start(self, user: Any, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> str:
        if not self.may_start(user, dag_id):
            raise HTTPException(403, f"You may not trigger DAG {dag_id}. Nothing was changed.")
        name, given = user.get_name(), dict(conf)
        if not self._is_started(dag_id, run_id, name, given):
            with create_session(scoped=False) as session:
                dag = session.get(DagModel, dag_id)
                if dag is None or dag.is_stale or dag.has_import_errors:
                    raise _refused(dag_id, "it does not exist, or its file cannot be imported")
            by = DagRunTriggeredByType.UI
            try:
                trigger_dag(dag_id, triggered_by=by, triggering_user_name=name, run_id=run_id, conf=given)
            except Exception as error:  # another request with this id may have started it at the same moment
                if not self._is_started(dag_id, run_id, name, given):
                    if isinstance(error, (AirflowException, ValueError)):
                        raise _refused(dag_id, str(error).rstrip(".")) from error
                    raise
        sentence = f"DAG run {run_id} of DAG {dag_id} is started."
        state = self.state(dag_id, run_id)
        return (
            f"{sentence} The DAG is paused; the run starts when it is unpaused." if state and state.paused else sentence
        )

    def state(self, dag_id: str, run_id: str) -> RunState | None:
        with create_session(scoped=False) as session:
            run = DagRun.find_duplicate(dag_id, run_id, session=session)
            dag = session.get(DagModel, dag_id)
            return None if run is None else RunState(str(run.state), bool(dag is None or dag.is_paused))

    def _is_started(self, dag_id: str, run_id: str, name: str, conf: dict[str, Any]) -> bool:
        with create_session(scoped=False) as session:
            run = DagRun.find_duplicate(dag_id, run_id, session=session)
            if run is None:
                return False
            if (run.triggering_user_name, run.conf or {}) != (name, conf):
                raise _refused(dag_id, f"DAG run {run_id} already exists, and is another one")
            return True


def _read_restoring() -> dict[str, str]:
    """Return the DAG that restores each pipeline; of several, the first by id."""
    with create_session(scoped=False) as session:
        tagged = session.query(DagTag.dag_id).filter(DagTag.name == RESTORES)
        wanted = DagModel.dag_id.in_(tagged), ~DagModel.is_stale
        dag_ids = sorted((dag_id for (dag_id,) in session.query(DagModel.dag_id).filter(*wanted)), reverse=True)
        return {pipeline: dag_id for dag_id in dag_ids for pipeline in _offered(dag_id, session)}


def _offered(dag_id: str, session: Any) -> Collection[str]:
    """Return the pipelines that the form of a DAG offers."""
    dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
    if dag is None or "pipeline" not in dag.params:
        return ()
    return dag.params.get_param("pipeline").schema.get("enum") or ()


def _refused(dag_id: str, why: str) -> ActionRefusedError:
    return ActionRefusedError(f"No run of DAG {dag_id} was started: {why}. Nothing was changed.")
