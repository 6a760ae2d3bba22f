"""What people have asked for, and the answers, as JSON."""

from typing import Any

from tidegate.protocol.observing.gestures import AuditRecord, GestureAnswer
from tidegate.reading.answer import milliseconds


def audit_document(record: AuditRecord) -> dict[str, Any]:
    gesture, answer = record.gesture, record.answer
    return {
        "number": record.number,
        "pipeline": record.pipeline_id,
        "request_id": gesture.request_id,
        "timestamp": milliseconds(record.at),
        "kind": gesture.kind.value,
        "actor": {"kind": gesture.actor.kind.value, "name": gesture.actor.name, "origin": gesture.actor.origin},
        "details": dict(gesture.details),
        "status": answer.status.value,
        "sentence": answer.sentence,
        "checkpoint": answer.checkpoint_id,
    }


def answer_document(request_id: str, answer: GestureAnswer) -> dict[str, Any]:
    return {
        "request_id": request_id,
        "status": answer.status.value,
        "sentence": answer.sentence,
        "checkpoint": answer.checkpoint_id,
    }
