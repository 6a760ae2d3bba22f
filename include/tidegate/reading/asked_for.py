"""The checkpoints that resulted from requests of users. A request that has to wait is answered before it has one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, func, or_, select

from tidegate.postgres.tables import checkpoints
from tidegate.protocol.facts.names import handed_over, requests_of_run, run_id_of
from tidegate.protocol.observing.actions import ActionKind, ActorKind, AnswerStatus, AuditRecord
from tidegate.reading.dags import escape_like

_ASKS = frozenset({ActionKind.CHECKPOINT, ActionKind.SAVEPOINT, ActionKind.STOP, ActionKind.DRAIN})


def with_checkpoints(
    connection: Connection, pipeline_id: str, records: Sequence[AuditRecord]
) -> tuple[AuditRecord, ...]:
    """Add the newest checkpoint of each request to answers that do not name one yet."""
    waited = [record for record in records if _waited(record)]
    if not waited:
        return tuple(records)
    request_id = func.lower(checkpoints.c.request_id)
    patterns = {f"%{escape_like(part.lower())}%" for record in waited for part in _parts(record)}
    rows = connection.execute(
        select(checkpoints.c.checkpoint_id, checkpoints.c.request_id)
        .where(
            checkpoints.c.pipeline_id == pipeline_id, or_(*(request_id.like(pattern) for pattern in sorted(patterns)))
        )
        .order_by(checkpoints.c.checkpoint_id)
    )
    taken = [(row.checkpoint_id, row.request_id) for row in rows]
    return tuple(_with(record, taken) if _waited(record) else record for record in records)


def _waited(record: AuditRecord) -> bool:
    answer = record.answer
    return record.action.kind in _ASKS and answer.status is AnswerStatus.DONE and answer.checkpoint_id is None


def _parts(record: AuditRecord) -> list[str]:
    """Return strings, one of which is the id of its checkpoint's request or a part of it."""
    action = record.action
    given = action.details.get("request")
    of_run = [requests_of_run(*action.actor.name.split("/", 1))] if action.actor.kind is ActorKind.DAG_RUN else []
    of_page = [handed_over(action.request_id), f"/{run_id_of(action.request_id)}/"]
    return [*of_page, *of_run, *([given] if isinstance(given, str) and given else [])]


def _with(record: AuditRecord, taken: Iterable[tuple[int, str]]) -> AuditRecord:
    parts = _parts(record)
    ids = [checkpoint_id for checkpoint_id, request_id in taken if any(part in request_id for part in parts)]
    return replace(record, answer=replace(record.answer, checkpoint_id=ids[-1])) if ids else record
