"""What people have asked for, and the answers."""

from collections.abc import Mapping
from typing import Any

from tidegate.protocol.observing.gestures import ActorKind, AnswerStatus, AuditRecord, GestureAnswer, GestureKind
from tidegate.reading.answer import Document, Moment


class Actor(Document):
    kind: ActorKind
    name: str
    origin: str


class Answer(Document):
    """What became of a gesture: the first answer, however often it is asked."""

    request_id: str
    status: AnswerStatus
    sentence: str
    checkpoint: int | None


class AnswerOnPage(Answer):
    """`page` is where to see what becomes of it, if a DAG run does it."""

    page: str | None


class AuditLine(Document):
    """A gesture and its answer, as recorded. Later ones have higher numbers."""

    number: int
    pipeline: str | None
    request_id: str
    at: Moment
    kind: GestureKind
    actor: Actor
    details: Mapping[str, Any]
    status: AnswerStatus
    sentence: str
    checkpoint: int | None


class Audit(Document):
    audit: tuple[AuditLine, ...]
    next_before: int | None


def answer_of(request_id: str, answer: GestureAnswer) -> Answer:
    said = answer.sentence
    return Answer(request_id=request_id, status=answer.status, sentence=said, checkpoint=answer.checkpoint_id)


def audit_line(record: AuditRecord) -> AuditLine:
    gesture, answer = record.gesture, record.answer
    return AuditLine(
        number=record.number,
        pipeline=record.pipeline_id,
        request_id=gesture.request_id,
        at=record.at,
        kind=gesture.kind,
        actor=Actor.model_validate(gesture.actor),
        details=gesture.details,
        status=answer.status,
        sentence=answer.sentence,
        checkpoint=answer.checkpoint_id,
    )
