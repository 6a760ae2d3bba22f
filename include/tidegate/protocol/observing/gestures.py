"""What people ask for, who they are, and what they are answered: the nouns of the audit.

Whoever asks makes an id for it. Asked again with the same id it is the same gesture: it is not carried out a second
time, and gets its first answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tidegate.protocol.facts.errors import CheckpointError, GestureRefusedError, IllegalRequestError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.steps.stopping import require_legal_id
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, Queued, Resumed, Triggered, TriggerOutcome
from tidegate.protocol.text.masking import masked, masked_json
from tidegate.protocol.text.storable import LONGEST_TEXT, storable_json, storable_text

#: Characters of an actor's name and origin.
LONGEST_NAME = 300


class ActorKind(StrEnum):
    AIRFLOW_USER = "AIRFLOW_USER"
    CLI_USER = "CLI_USER"
    DAG_RUN = "DAG_RUN"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks. `name` is the user, or the DAG run as `DAG/RUN`. `origin` is from where: the host of a command, the
    address of a browser, the user who triggered the DAG run."""

    kind: ActorKind
    name: str
    origin: str


class GestureKind(StrEnum):
    CHECKPOINT = "CHECKPOINT"
    SAVEPOINT = "SAVEPOINT"
    STOP = "STOP"
    DRAIN = "DRAIN"
    ABORT = "ABORT"
    APPROVE = "APPROVE"
    REJECT = "REJECT"
    SUSPEND = "SUSPEND"
    RESUME = "RESUME"
    CANCEL = "CANCEL"
    RESTORE = "RESTORE"
    UNDO = "UNDO"
    SKIP = "SKIP"  # rows that a source has lost
    FORK = "FORK"
    RENAME = "RENAME"
    DISPOSE = "DISPOSE"
    RELOCATE = "RELOCATE"
    EXPORT = "EXPORT"
    REWRITE = "REWRITE"
    CLEAN = "CLEAN"
    RECOVER = "RECOVER"
    UPGRADE = "UPGRADE"  # of the database's schema: of no pipeline


@dataclass(frozen=True, slots=True)
class Gesture:
    """`details` is what it was asked with, as JSON: a checkpoint's number, a savepoint's new name, a directory."""

    request_id: str
    kind: GestureKind
    actor: Actor
    details: Mapping[str, Any] = field(default_factory=dict)


class AnswerStatus(StrEnum):
    DONE = "DONE"
    REFUSED = "REFUSED"  # nothing was changed; the sentence says why


@dataclass(frozen=True, slots=True)
class GestureAnswer:
    """What became of a gesture. `cause` is the error that refused it, in the process that met it, and not recorded."""

    status: AnswerStatus
    sentence: str
    checkpoint_id: int | None = None
    cause: CheckpointError | None = field(default=None, compare=False, repr=False)

    def require_done(self) -> "GestureAnswer":
        """Raises what refused it, or `GestureRefusedError` if that was another process's answer."""
        if self.status is AnswerStatus.REFUSED:
            raise self.cause or GestureRefusedError(f"This request was refused before: {self.sentence}")
        return self


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A gesture and its answer, as recorded. Later ones have higher numbers. `pipeline_id` None: of no pipeline."""

    number: int
    pipeline_id: str | None
    at: datetime
    gesture: Gesture
    answer: GestureAnswer


def kind_of_request(kind: CheckpointKind, drain: bool) -> GestureKind:
    """What a person who asks for this kind of checkpoint does. Performs no I/O."""
    if kind is CheckpointKind.SYNC_SAVEPOINT:
        return GestureKind.DRAIN if drain else GestureKind.STOP
    return GestureKind(kind.value)


def answer_to_request(pipeline_id: str, outcome: TriggerOutcome) -> GestureAnswer:
    """The first answer to a request for a checkpoint. What becomes of one that waits is in the history. Performs no
    I/O."""
    done, what = AnswerStatus.DONE, f"of pipeline {pipeline_id}"
    match outcome:
        case Triggered(id_):
            return GestureAnswer(done, f"Checkpoint {id_} {what} is triggered.", id_)
        case Resumed(id_):
            return GestureAnswer(done, f"Checkpoint {id_} {what} goes on.", id_)
        case AlreadyCompleted(id_):
            return GestureAnswer(done, f"Checkpoint {id_} {what} was taken before.", id_)
        case Queued(message):
            return GestureAnswer(done, f"The request waits. {message}")
        case Dropped(_, message):
            return GestureAnswer(AnswerStatus.REFUSED, message)


def recordable(gesture: Gesture) -> Gesture:
    """The gesture as it is recorded: secrets are masked, texts are storable and bounded. Performs no I/O.

    Raises `IllegalRequestError` for an id that cannot name anything.
    """
    require_legal_id(gesture.request_id)
    actor = Actor(gesture.actor.kind, _name(gesture.actor.name), _name(gesture.actor.origin))
    return replace(gesture, actor=actor, details=_details(gesture.details))


def recordable_answer(answer: GestureAnswer) -> GestureAnswer:
    """The same of an answer. Performs no I/O."""
    return GestureAnswer(answer.status, storable_text(masked(answer.sentence)), answer.checkpoint_id)


def require_same_gesture(known: Gesture, repeated: Gesture) -> None:
    """An id is of one gesture. Both as they are recorded. Raises `IllegalRequestError`. Performs no I/O."""
    if (known.kind, known.details) != (repeated.kind, repeated.details):
        raise IllegalRequestError(
            f"The id {repeated.request_id} is of another request: {known.kind} with {json.dumps(dict(known.details))}, "
            f"by {known.actor.name}. Nothing was changed. Use a new id for {repeated.kind}."
        )


def _name(text: str) -> str:
    return storable_text(masked(text))[:LONGEST_NAME]


def _details(details: Mapping[str, Any]) -> dict[str, Any]:
    try:
        told: dict[str, Any] = storable_json(masked_json(details))
        length = len(json.dumps(told))
    except RecursionError:
        return {"left_out": "too deeply nested"}
    return told if length <= LONGEST_TEXT else {"left_out": f"{length} characters"}
