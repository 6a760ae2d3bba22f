"""The work of a DAG run that the Checkpoints page has started: planning a restore, or carrying out a plan.

The record decides, not the run's parameters, because every user who may trigger the DAG can fill in its form. It must
be the DAG run that the record names, and Airflow must have recorded the same user as the one who made the request.
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
    PlannedRestore,
    RequestOfRun,
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
    """A restore that was carried out. `plan` is None if an earlier run did it."""

    checkpoint_id: int
    plan: RestorePlan | None = None


def carry_out(coordinator: "CheckpointCoordinator", plan_id: str, context: Context) -> Restored:
    """Plan, which ends the task as skipped, or restore.

    Raises:
        IllegalRequestError: If the DAG run is not the one that was started for the plan.
        RestoreRefusedError: If the plan has changed since it was shown, or a restore is not possible.
        CheckpointError: As in `plan_restore` and `restore`.
    """
    planned = coordinator.operations.planned_restores.find(plan_id)
    if planned is None:
        raise IllegalRequestError(
            f"Plan {plan_id[:100]!r} of pipeline {coordinator.pipeline_id} was not requested on a page. Nothing was "
            "changed. Leave the parameter plan empty."
        )
    dag_run = context["dag_run"]
    confirmed = planned.confirmed
    own_request = planned.requested if confirmed is None or dag_run.run_id == planned.requested.run_id else confirmed
    require_run(own_request, dag_run.dag_id, dag_run.run_id, dag_run.triggering_user_name)
    if own_request is planned.requested:
        _plan(coordinator, planned)
        raise AirflowSkipException("The plan is on the page. Nothing was changed.")
    return _restore(coordinator, planned, own_request)


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


def _restore(coordinator: "CheckpointCoordinator", planned: PlannedRestore, confirmed: RequestOfRun) -> Restored:
    from tidegate.documents.restores import plan_digest, plan_document, shown_plan

    action = action_of(planned, confirmed)
    if (answer := coordinator.auditing.answer_to(action)) is not None:
        log.info("This request was answered before: %s", answer.require_done().sentence)
        assert answer.checkpoint_id is not None  # the answer to a completed restore names it
        return Restored(answer.checkpoint_id)
    with coordinator.auditing.attempt(action):
        plan = coordinator.plan_restore(_target(planned))
        _show(plan)
        document = plan_document(plan)
        digest = plan_digest(document)
        if digest != planned.digest:
            coordinator.operations.planned_restores.show_anew(planned, shown_plan(document), digest)
        require_unchanged(planned, digest, "The page shows the current plan.")
        coordinator.restore(_target(planned), planned.accepted, plan, action)
    return Restored(plan.checkpoint.checkpoint_id, plan)


def _show(plan: RestorePlan) -> None:
    for line in plan.lines():
        log.info("%s", line)


def _target(planned: PlannedRestore) -> "Target":
    from tidegate.coordination.recovery.restore import ToCheckpoint, Undo

    return Undo() if planned.target == UNDO else ToCheckpoint(int(planned.target))
