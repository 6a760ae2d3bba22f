"""Read and write the audit of user actions. Recorded entries have no secrets, and stay (see `guards`)."""

from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import Connection, RowMapping, insert, select

from tidegate.postgres.tables import audit
from tidegate.protocol.observing.actions import (
    ActionAnswer,
    ActionKind,
    Actor,
    ActorKind,
    AnswerStatus,
    AuditRecord,
    UserAction,
    recordable,
    recordable_answer,
)


def record(
    connection: Connection, pipeline_id: str | None, action: UserAction, answer: ActionAnswer, at: datetime
) -> AuditRecord:
    """Record a user action and its answer. Raise `IllegalRequestError` for an illegal id."""
    stored, stored_answer = recordable(action), recordable_answer(answer)
    values = {
        "pipeline_id": pipeline_id,
        "request_id": stored.request_id,
        "at": at,
        "kind": stored.kind.value,
        "actor_kind": stored.actor.kind.value,
        "actor": stored.actor.name,
        "origin": stored.actor.origin,
        "details": dict(stored.details),
        "status": stored_answer.status.value,
        "sentence": stored_answer.sentence,
        "checkpoint_id": stored_answer.checkpoint_id,
    }
    number: int = connection.execute(insert(audit).values(**values).returning(audit.c.number)).scalar_one()
    return AuditRecord(number, pipeline_id, at, stored, replace(stored_answer, cause=answer.cause))


def find(connection: Connection, pipeline_id: str, request_id: str) -> AuditRecord | None:
    if not request_id.isprintable():
        return None
    entry = (audit.c.pipeline_id == pipeline_id) & (audit.c.request_id == request_id)
    row = connection.execute(select(audit).where(entry)).mappings().one_or_none()
    return None if row is None else _record(row)


def newest(connection: Connection, pipeline_id: str | None, limit: int, before: int | None) -> list[AuditRecord]:
    """Return the newest entries of one pipeline, or of all and the database itself."""
    query = select(audit).order_by(audit.c.number.desc()).limit(limit)
    if pipeline_id is not None:
        query = query.where(audit.c.pipeline_id == pipeline_id)
    if before is not None:
        query = query.where(audit.c.number < before)
    return [_record(row) for row in connection.execute(query).mappings()]


def _record(row: RowMapping) -> AuditRecord:
    actor = Actor(ActorKind(row["actor_kind"]), row["actor"], row["origin"])
    action = UserAction(row["request_id"], ActionKind(row["kind"]), actor, row["details"])
    answer = ActionAnswer(AnswerStatus(row["status"]), row["sentence"], row["checkpoint_id"])
    return AuditRecord(row["number"], row["pipeline_id"], row["at"].astimezone(UTC), action, answer)
