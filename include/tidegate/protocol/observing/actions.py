"""The nouns of the audit: user actions, actors and answers.

The requester makes an id for each action. A repeated request with the same id is the same action. It is not carried out
a second time, and gets its first answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tidegate.protocol.facts.errors import ActionRefusedError, CheckpointError, IllegalRequestError
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
    """The requester of an action. `name` is the user, or the DAG run as `DAG/RUN`. `origin` is the host of a command,
    the address of a browser, or the user who triggered the DAG run."""

    kind: ActorKind
    name: str
    origin: str


class ActionKind(StrEnum):
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
class UserAction:
    """A user action. `details` are its arguments as JSON: a checkpoint's number, a savepoint's new name, a
    directory."""

    request_id: str
    kind: ActionKind
    actor: Actor
    details: Mapping[str, Any] = field(default_factory=dict)


class AnswerStatus(StrEnum):
    DONE = "DONE"
    REFUSED = "REFUSED"  # nothing was changed; the sentence has the reason


@dataclass(frozen=True, slots=True)
class ActionAnswer:
    """The outcome of a user action. `cause` is the error that refused it: in this process only, not recorded."""

    status: AnswerStatus
    sentence: str
    checkpoint_id: int | None = None
    cause: CheckpointError | None = field(default=None, compare=False, repr=False)

    def require_done(self) -> "ActionAnswer":
        """Raise the error that refused the action, or `ActionRefusedError` if the answer is another process's."""
        if self.status is AnswerStatus.REFUSED:
            raise self.cause or ActionRefusedError(f"This request was refused before: {self.sentence}")
        return self


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """A user action and its answer, as recorded. Later ones have higher numbers. `pipeline_id` is None for an action on
    no pipeline."""

    number: int
    pipeline_id: str | None
    at: datetime
    action: UserAction
    answer: ActionAnswer


def kind_of_request(kind: CheckpointKind, drain: bool) -> ActionKind:
    """Return the user action that requests this kind of checkpoint. Performs no I/O."""
    if kind is CheckpointKind.SYNC_SAVEPOINT:
        return ActionKind.DRAIN if drain else ActionKind.STOP
    return ActionKind(kind.value)


def answer_to_request(pipeline_id: str, outcome: TriggerOutcome) -> ActionAnswer:
    """Return the first answer to a request for a checkpoint. The history has the outcome of one that waits. Performs no
    I/O."""
    done, what = AnswerStatus.DONE, f"of pipeline {pipeline_id}"
    match outcome:
        case Triggered(id_):
            return ActionAnswer(done, f"Checkpoint {id_} {what} is triggered.", id_)
        case Resumed(id_):
            return ActionAnswer(done, f"Checkpoint {id_} {what} goes on.", id_)
        case AlreadyCompleted(id_):
            return ActionAnswer(done, f"Checkpoint {id_} {what} was taken before.", id_)
        case Queued(message):
            return ActionAnswer(done, f"The request waits. {message}")
        case Dropped(_, message):
            return ActionAnswer(AnswerStatus.REFUSED, message)


def recordable(action: UserAction) -> UserAction:
    """Return the action as it is recorded: secrets are masked, texts are storable and bounded. Performs no I/O.

    Raises `IllegalRequestError` for an id that cannot name anything.
    """
    require_legal_id(action.request_id)
    actor = Actor(action.actor.kind, _name(action.actor.name), _name(action.actor.origin))
    return replace(action, actor=actor, details=_details(action.details))


def recordable_answer(answer: ActionAnswer) -> ActionAnswer:
    """Return the answer as it is recorded. Performs no I/O."""
    return ActionAnswer(answer.status, storable_text(masked(answer.sentence)), answer.checkpoint_id)


def require_same_action(known: UserAction, repeated: UserAction) -> None:
    """Check that an id is used for one action only. Both are given as recorded. Raises `IllegalRequestError`. Performs
    no I/O."""
    if (known.kind, known.details) != (repeated.kind, repeated.details):
        raise IllegalRequestError(
            f"The id {repeated.request_id} is of another request: {known.kind} with {json.dumps(dict(known.details))}, "
            f"by {known.actor.name}. Nothing was changed. Use a new id for {repeated.kind}."
        )


def _name(text: str) -> str:
    return storable_text(masked(text))[:LONGEST_NAME]


def _details(details: Mapping[str, Any]) -> dict[str, Any]:
    try:
        storable: dict[str, Any] = storable_json(masked_json(details))
        length = len(json.dumps(storable))
    except RecursionError:
        return {"left_out": "too deeply nested"}
    return storable if length <= LONGEST_TEXT else {"left_out": f"{length} characters"}
