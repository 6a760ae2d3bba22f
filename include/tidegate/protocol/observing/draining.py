"""The permission of a DAG run to drain its pipeline. Draining cannot be undone, and needs a right of its own.

Airflow lets every user who may trigger a DAG fill in its parameters. A task learns the user's name, but not the user's
other rights. So a DAG run drains only if a page has started it: a page checks the right, and records the user.
"""

from tidegate.protocol.facts.errors import CheckpointError, IllegalRequestError
from tidegate.protocol.facts.names import asked_by_run
from tidegate.protocol.observing.actions import ActionKind, ActorKind, AnswerStatus, AuditRecord


def require_asked_on_page(
    known: AuditRecord | None, pipeline_id: str, run_id: str, user: str | None, cleared: bool
) -> None:
    """Check that a page has started the DAG run. `known` is the record of the request that the DAG run's id names. A
    DAG run that was cleared never drains again. Raises `IllegalRequestError` if the record is not of this user's
    draining, and `CheckpointError` if it may still be written, which happens after the DAG run has started. Performs no
    I/O."""
    if known is None and not cleared and asked_by_run(run_id) is not None:
        raise CheckpointError(
            f"DAG run {run_id} is to drain pipeline {pipeline_id}, and no request of a page for that is on record yet. "
            "Nothing was changed. The task is repeated. If no record appears, request it on the page again."
        )
    if known is None or cleared or not _is_granted(known, user):
        raise IllegalRequestError(
            f"DAG run {run_id}, triggered by {user or 'a user unknown to Airflow'}, may not drain pipeline "
            f"{pipeline_id}: every user who may trigger a DAG can fill in its parameters, and draining needs a right "
            "of its own. Nothing was changed. Drain it on the Checkpoints page, which checks the right, or with "
            f"`tidegate stop {pipeline_id} --drain` on a machine with its code."
        )


def _is_granted(known: AuditRecord, user: str | None) -> bool:
    action, actor = known.action, known.action.actor
    return (
        action.kind is ActionKind.DRAIN
        and known.answer.status is AnswerStatus.DONE
        and (actor.kind, actor.name) == (ActorKind.AIRFLOW_USER, user)
    )
