"""What a DAG run does that the Checkpoints page has started: it plans a restore, or carries out a plan.

What it does is what is recorded, not what its parameters say: anybody who may trigger the DAG can fill in its form.
It must be the DAG run that the record names, and Airflow must have recorded the same user as the one who asked.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from tidegate.protocol.facts.errors import CheckpointError, IllegalRequestError
from tidegate.protocol.recovery.restore_plan import RestorePlan
from tidegate.protocol.recovery.restores_on_pages import (
    UNDO,
    AskedOfRun,
    PlannedRestore,
    action_of,
    require_run,
    require_unchanged,
)

if TYPE_CHECKING:
    from tidegate.coordination.coordinator import CheckpointCoordinator
    from tidegate.coordination.recovery.restore import Target

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Restored:
    """`plan` is None if it was restored before."""

    checkpoint_id: int
    plan: RestorePlan | None = None


def carry_out(coordinator: "CheckpointCoordinator", plan_id: str, context: Context) -> Restored:
    """Plan, which ends the task as skipped, or restore.

    Raises `IllegalRequestError` if the DAG run is not the one that was started for it, `RestoreRefusedError` if the
    plan has changed since it was shown, and as `plan_restore` and `restore` do.
    """
    planned = coordinator.operations.planned_restores.find(plan_id)
    if planned is None:
        raise IllegalRequestError(
            f"No page has asked for the plan {plan_id[:100]!r} of pipeline {coordinator.pipeline_id}. Nothing was "
            "changed. Leave the parameter plan empty."
        )
    dag_run = context["dag_run"]
    confirmed = planned.confirmed
    mine = planned.asked if confirmed is None or dag_run.run_id == planned.asked.run_id else confirmed
    require_run(mine, dag_run.dag_id, dag_run.run_id, dag_run.triggering_user_name)
    if mine is planned.asked:
        _plan(coordinator, planned)
        raise AirflowSkipException("The plan is on the page. Nothing was changed.")
    return _restore(coordinator, planned, mine)


def _plan(coordinator: "CheckpointCoordinator", planned: PlannedRestore) -> None:
    from tidegate.coordination.observing.audit import UNANSWERED
    from tidegate.documents.restores import plan_digest, plan_document, shown_plan

    if planned.planned_at is not None:
        log.info("The plan was made before, at %s.", planned.planned_at)
        return
    plans = coordinator.operations.planned_restores
    try:
        plan = coordinator.plan_restore(_target(planned))
    except UNANSWERED:
        raise
    except CheckpointError as error:
        plans.refuse(planned.request_id, str(error))
        raise
    _show(plan)
    document = plan_document(plan)
    plans.store(planned.request_id, shown_plan(document), plan_digest(document))


def _restore(coordinator: "CheckpointCoordinator", planned: PlannedRestore, confirmed: AskedOfRun) -> Restored:
    from tidegate.documents.restores import plan_digest, plan_document, shown_plan

    action = action_of(planned, confirmed)
    if (known := coordinator.auditing.answer_to(action)) is not None:
        log.info("This request was answered before: %s", known.require_done().sentence)
        assert known.checkpoint_id is not None  # a restore that is done names it
        return Restored(known.checkpoint_id)
    with coordinator.auditing.attempt(action):
        plan = coordinator.plan_restore(_target(planned))
        _show(plan)
        document = plan_document(plan)
        digest = plan_digest(document)
        if digest != planned.digest:
            coordinator.operations.planned_restores.show_anew(planned, shown_plan(document), digest)
        require_unchanged(planned, digest, "The page shows the plan as it is now.")
        coordinator.restore(_target(planned), planned.accepted, plan, action)
    return Restored(plan.checkpoint.checkpoint_id, plan)


def _show(plan: RestorePlan) -> None:
    for line in plan.lines():
        log.info("%s", line)


def _target(planned: PlannedRestore) -> "Target":
    from tidegate.coordination.recovery.restore import ToCheckpoint, Undo

    return Undo() if planned.target == UNDO else ToCheckpoint(int(planned.target))
