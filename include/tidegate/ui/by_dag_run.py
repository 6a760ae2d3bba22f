"""User actions that need the pipeline's code: each starts one DAG run for each request id, and returns its id.

The record is written first and the DAG run started afterwards, with an id derived from the request's. So a request that
is repeated, even after a crash, leads to the same DAG run.
"""

from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException

from tidegate.coordination.observing.audit import AuditEntry
from tidegate.coordination.operations import PipelineOperations
from tidegate.protocol.facts.errors import (
    ActionRefusedError,
    CheckpointError,
    IllegalRequestError,
    RestoreRefusedError,
)
from tidegate.protocol.facts.names import run_id_of
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionAnswer, Actor, AnswerStatus
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.recovery.restores_on_pages import PlannedRestore, action_of
from tidegate.ui.dag_runs import DagRuns


@dataclass(frozen=True, slots=True)
class Desk:
    """A user's request about a pipeline. `actor` is the user, for the record."""

    operations: PipelineOperations
    runs: DagRuns
    user: Any
    actor: Actor

    @property
    def pipeline(self) -> str:
        return self.operations.pipeline_id

    def require_right(self, dag_id: str) -> None:
        """Check the right before anything is recorded.

        Raises:
            HTTPException: 403 if the user may not trigger the DAG.
        """
        if not self.runs.may_start(self.user, dag_id):
            raise HTTPException(
                403, f"You may not trigger DAG {dag_id}. Nothing was changed. Ask the administrator of Airflow."
            )


def take(
    desk: Desk, request_id: str, kind: CheckpointKind, label: Label, drain: bool, chosen: str | None, dag: str
) -> ActionAnswer:
    """Start a run of the pipeline's DAG `dag`, as its form would; `chosen` is the user's choice among several."""
    given = {"kind": kind.value, "drain": drain or None, "name": label.name, "note": label.note}
    conf = {name: value for name, value in given.items() if value is not None}

    def start() -> str:
        return desk.runs.start(desk.user, dag, run_id_of(request_id), conf)

    return desk.operations.request_of_run(request_id, desk.actor, start, kind, label, drain, chosen)


def choose_dag(desk: Desk, dags: tuple[str, ...], chosen: str | None) -> str | None:
    """Return the DAG whose run takes the checkpoint; None if the pipeline has none.

    Raises:
        HTTPException: 409 if the choice is not valid, or is needed.
    """
    active = desk.runs.active(dags)
    if chosen is not None and chosen not in active:
        raise HTTPException(
            409, f"Pipeline {desk.pipeline} has no DAG {chosen[:200]}. Nothing was changed. Choose another one."
        )
    if chosen is None and len(active) > 1:
        raise HTTPException(
            409,
            f"Pipeline {desk.pipeline} has several DAGs. Nothing was changed. Give one as dag_id: {', '.join(active)}.",
        )
    return chosen or next(iter(active), None)


def plan(desk: Desk, request_id: str, target: str) -> ActionAnswer:
    """Start the planning of a restore. It changes nothing, so it is not in the audit log."""
    plans = desk.operations.planned_restores
    try:
        existing = plans.find(request_id)
        dag_id = _restoring(desk) if existing is None else existing.requested.dag_id
        desk.require_right(dag_id)
        planned = plans.ask(request_id, target, desk.actor, dag_id)
        if planned.planned_at is None:
            _start(desk, planned, planned.requested.dag_id, request_id)
    except (IllegalRequestError, ActionRefusedError) as error:
        if isinstance(error, ActionRefusedError):
            plans.refuse(request_id, str(error))
        return ActionAnswer(AnswerStatus.REFUSED, str(error))
    if planned.refusal is not None:
        return ActionAnswer(AnswerStatus.REFUSED, planned.refusal)
    return ActionAnswer(AnswerStatus.DONE, f"The plan of {planned.what} is made by DAG run {planned.requested.run_id}.")


def restore(desk: Desk, plan_id: str, request_id: str, accepted: Accepted) -> ActionAnswer:
    """Carry out a plan as it was shown. The outcome is in the audit log, by this id.

    Raises:
        HTTPException: 404 if there is no such plan.
    """
    plans = desk.operations.planned_restores
    if (shown := plans.find(plan_id)) is None:
        raise HTTPException(404, "There is no such plan.")
    desk.require_right(shown.requested.dag_id)
    try:
        planned = plans.confirm(plan_id, request_id, accepted, desk.actor, shown.requested.dag_id)
    except (IllegalRequestError, RestoreRefusedError) as error:
        return ActionAnswer(AnswerStatus.REFUSED, str(error))
    assert planned is not None  # plans are not deleted
    assert planned.confirmed is not None
    action = action_of(planned, planned.confirmed)
    if (earlier_answer := desk.operations.auditing.answer_to(action)) is not None:
        return earlier_answer
    try:
        _start(desk, planned, planned.confirmed.dag_id, request_id)
    except ActionRefusedError as error:
        return desk.operations.auditing.carry_out(action, _refusing(error))
    sentence = f"Pipeline {desk.pipeline} is restored by DAG run {planned.confirmed.run_id}."
    return ActionAnswer(AnswerStatus.DONE, sentence)


def _refusing(error: CheckpointError) -> Any:
    def refuse(_: AuditEntry) -> None:
        raise error

    return refuse


def _restoring(desk: Desk) -> str:
    """Return the DAG that restores this pipeline.

    Raises:
        ActionRefusedError: If there is none.
    """
    dag_id = desk.runs.restoring(desk.pipeline)
    if dag_id is None:
        raise ActionRefusedError(
            f"No DAG restores pipeline {desk.pipeline}. Nothing was changed. Create one with `restore_dag`, or run "
            f"`tidegate restore {desk.pipeline}` where its code is."
        )
    return dag_id


def _start(desk: Desk, planned: PlannedRestore, dag_id: str, request_id: str) -> None:
    conf = {
        "pipeline": desk.pipeline,
        "to": planned.target,
        "dry_run": request_id == planned.request_id,
        "plan": planned.request_id,
    }
    desk.runs.start(desk.user, dag_id, run_id_of(request_id), conf)
