"""Users' requests and their answers."""

from collections.abc import Mapping
from typing import Any

from tidegate.protocol.observing.actions import ActionAnswer, ActionKind, ActorKind, AnswerStatus, AuditRecord
from tidegate.reading.answer import Document, Moment


class Actor(Document):
    kind: ActorKind
    name: str
    origin: str


class Answer(Document):
    """The answer to a user action. A repeated request gets the first answer again."""

    request_id: str
    status: AnswerStatus
    sentence: str
    checkpoint: int | None


class AnswerOnPage(Answer):
    """An answer on a page. If a DAG run does the work, `page` shows its progress."""

    page: str | None


class AuditLine(Document):
    """A user action and its answer, as recorded. Later ones have higher numbers."""

    number: int
    pipeline: str | None
    request_id: str
    at: Moment
    kind: ActionKind
    actor: Actor
    details: Mapping[str, Any]
    status: AnswerStatus
    sentence: str
    checkpoint: int | None


class Audit(Document):
    audit: tuple[AuditLine, ...]
    next_before: int | None


def answer_of(request_id: str, answer: ActionAnswer) -> Answer:
    return Answer(
        request_id=request_id, status=answer.status, sentence=answer.sentence, checkpoint=answer.checkpoint_id
    )


def audit_line(record: AuditRecord) -> AuditLine:
    action, answer = record.action, record.answer
    return AuditLine(
        number=record.number,
        pipeline=record.pipeline_id,
        request_id=action.request_id,
        at=record.at,
        kind=action.kind,
        actor=Actor.model_validate(action.actor),
        details=action.details,
        status=answer.status,
        sentence=answer.sentence,
        checkpoint=answer.checkpoint_id,
    )
