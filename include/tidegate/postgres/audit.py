"""Reads and writes what people have asked for. What is recorded has no secrets, and stays (see `guards`)."""

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
    """Raises `IllegalRequestError` for an id that cannot be one."""
    known, told = recordable(action), recordable_answer(answer)
    values = {
        "pipeline_id": pipeline_id,
        "request_id": known.request_id,
        "at": at,
        "kind": known.kind.value,
        "actor_kind": known.actor.kind.value,
        "actor": known.actor.name,
        "origin": known.actor.origin,
        "details": dict(known.details),
        "status": told.status.value,
        "sentence": told.sentence,
        "checkpoint_id": told.checkpoint_id,
    }
    number: int = connection.execute(insert(audit).values(**values).returning(audit.c.number)).scalar_one()
    return AuditRecord(number, pipeline_id, at, known, replace(told, cause=answer.cause))


def find(connection: Connection, pipeline_id: str, request_id: str) -> AuditRecord | None:
    if not request_id.isprintable():
        return None
    asked = (audit.c.pipeline_id == pipeline_id) & (audit.c.request_id == request_id)
    row = connection.execute(select(audit).where(asked)).mappings().one_or_none()
    return None if row is None else _record(row)


def newest(connection: Connection, pipeline_id: str | None, limit: int, before: int | None) -> list[AuditRecord]:
    """Of one pipeline, or of all and the database itself."""
    asked = select(audit).order_by(audit.c.number.desc()).limit(limit)
    if pipeline_id is not None:
        asked = asked.where(audit.c.pipeline_id == pipeline_id)
    if before is not None:
        asked = asked.where(audit.c.number < before)
    return [_record(row) for row in connection.execute(asked).mappings()]


def _record(row: RowMapping) -> AuditRecord:
    actor = Actor(ActorKind(row["actor_kind"]), row["actor"], row["origin"])
    action = UserAction(row["request_id"], ActionKind(row["kind"]), actor, row["details"])
    answer = ActionAnswer(AnswerStatus(row["status"]), row["sentence"], row["checkpoint_id"])
    return AuditRecord(row["number"], row["pipeline_id"], row["at"].astimezone(UTC), action, answer)
