"""Whether a DAG run may drain its pipeline. Draining cannot be taken back, and takes a right of its own.

Airflow lets whoever may trigger a DAG fill in its parameters, and tells a task who did, but not what else that user may
do. So a DAG run drains only if a page has started it: a page checks the right, and records who asked.
"""

from tidegate.protocol.facts.errors import CheckpointError, IllegalRequestError
from tidegate.protocol.facts.names import asked_by_run
from tidegate.protocol.observing.actions import ActionKind, ActorKind, AnswerStatus, AuditRecord


def require_asked_on_page(
    known: AuditRecord | None, pipeline_id: str, run_id: str, user: str | None, cleared: bool
) -> None:
    """`known` is what is on record of the request that the DAG run's id names. A DAG run that was cleared, by whomever,
    drains nothing anew. Raises `IllegalRequestError` if the
    record is not of this user's draining, and `CheckpointError` if it may still come: it is written when the DAG run
    has been started. Performs no I/O."""
    if known is None and not cleared and asked_by_run(run_id) is not None:
        raise CheckpointError(
            f"DAG run {run_id} is to drain pipeline {pipeline_id}, and it is not on record yet that a page has asked "
            "for that. Nothing was changed. The task is repeated; if the record does not come, ask on the page again."
        )
    if known is None or cleared or not _is_granted(known, user):
        raise IllegalRequestError(
            f"DAG run {run_id}, triggered by {user or 'nobody that Airflow knows'}, may not drain pipeline "
            f"{pipeline_id}: whoever may trigger a DAG can fill in its parameters, and draining takes more than that. "
            "Nothing was changed. Drain it on the Checkpoints page, which asks for the right, or with `tidegate stop "
            f"{pipeline_id} --drain` where its code is."
        )


def _is_granted(known: AuditRecord, user: str | None) -> bool:
    asked, actor = known.action, known.action.actor
    return (
        asked.kind is ActionKind.DRAIN
        and known.answer.status is AnswerStatus.DONE
        and (actor.kind, actor.name) == (ActorKind.AIRFLOW_USER, user)
    )
