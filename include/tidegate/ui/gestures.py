"""What people do with a pipeline by hand, over HTTP: one route a gesture, for the pages and for programs.

`auth` decides who may, for all of them. Asked again with the same id a gesture is not carried out again, and the answer
is the first one. 503 says that nobody knows what became of it: ask again, with the same id.
"""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.documents.audit import answer_document
from tidegate.documents.pipeline_models import Answer
from tidegate.protocol.gestures import AnswerStatus, GestureAnswer
from tidegate.protocol.hold import LONGEST_COMMENT
from tidegate.protocol.records import CheckpointKind
from tidegate.protocol.savepoints import Label
from tidegate.protocol.storable import LONGEST_TEXT
from tidegate.ui.api import PREFIX, REFUSALS, Checkpoint, Pipeline
from tidegate.ui.asking import OperationsDep
from tidegate.ui.auth import ActorDep

_REFUSED = {"model": Answer, "description": "It was refused, and nothing was changed."}
gesture_routes = APIRouter(prefix=f"{PREFIX}/pipelines/{{pipeline}}", responses={**REFUSALS, 409: _REFUSED})

Text = Annotated[str | None, Field(max_length=LONGEST_TEXT)]


class Asked(BaseModel):
    """`request_id` is made by whoever asks, before asking."""

    model_config = ConfigDict(extra="forbid")
    request_id: UUID

    @property
    def id(self) -> str:
        return str(self.request_id)


class Decided(Asked):
    comment: Annotated[str | None, Field(max_length=LONGEST_COMMENT)] = None


class Labelled(Asked):
    """What is left out stays as it is."""

    name: Text = None
    note: Text = None


class Requested(Labelled):
    """`STOP` takes a savepoint, and the pipeline ends with it until it is resumed."""

    kind: Literal["CHECKPOINT", "SAVEPOINT", "STOP"]

    @property
    def checkpoint_kind(self) -> CheckpointKind:
        return CheckpointKind.SYNC_SAVEPOINT if self.kind == "STOP" else CheckpointKind(self.kind)


def _say(response: Response, asked: Asked, answer: GestureAnswer) -> Answer:
    response.status_code = 200 if answer.status is AnswerStatus.DONE else 409
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return Answer.model_validate(answer_document(asked.id, answer))


@gesture_routes.post("/suspend")
def suspend(response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, asked: Asked) -> Answer:
    """No checkpoints until it is resumed; what is in progress is aborted."""
    return _say(response, asked, operations.suspend(asked.id, actor))


@gesture_routes.post("/resume")
def resume(response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, asked: Asked) -> Answer:
    """Checkpoints again, from the latest completed one."""
    return _say(response, asked, operations.resume(asked.id, actor))


@gesture_routes.post("/cancel")
def cancel(response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, asked: Asked) -> Answer:
    """End the pipeline for ever. Takes the right to delete one of its DAGs."""
    return _say(response, asked, operations.cancel(asked.id, actor))


@gesture_routes.post("/requests")
def request_checkpoint(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, asked: Requested
) -> Answer:
    """Ask the continuous region for a checkpoint or savepoint, or to stop with one."""
    label = Label(asked.name, asked.note)
    return _say(response, asked, operations.request(asked.id, actor, asked.checkpoint_kind, label))


@gesture_routes.post("/drain")
def drain(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, asked: Labelled
) -> Answer:
    """Ask the continuous region to stop with a savepoint, and count its inputs as ended, for good. Takes the right to
    delete one of the pipeline's DAGs."""
    kind, label = CheckpointKind.SYNC_SAVEPOINT, Label(asked.name, asked.note)
    return _say(response, asked, operations.request(asked.id, actor, kind, label, drain=True))


@gesture_routes.post("/checkpoints/{checkpoint}/abort")
def abort(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    asked: Asked,
) -> Answer:  # fmt: skip
    """Abort a checkpoint in progress. The pipeline keeps running."""
    return _say(response, asked, operations.abort(asked.id, actor, checkpoint))


@gesture_routes.post("/checkpoints/{checkpoint}/approve")
def approve(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    asked: Decided,
) -> Answer:  # fmt: skip
    """Let a held checkpoint complete although a verdict failed."""
    return _say(response, asked, operations.approve(asked.id, actor, checkpoint, asked.comment))


@gesture_routes.post("/checkpoints/{checkpoint}/reject")
def reject(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    asked: Decided,
) -> Answer:  # fmt: skip
    """Abort a held checkpoint."""
    return _say(response, asked, operations.reject(asked.id, actor, checkpoint, asked.comment))


@gesture_routes.post("/checkpoints/{checkpoint}/rename")
def rename(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    asked: Labelled,
) -> Answer:  # fmt: skip
    """Give a savepoint another name, another note, or both."""
    return _say(response, asked, operations.rename(asked.id, actor, str(checkpoint), Label(asked.name, asked.note)))


@gesture_routes.post("/checkpoints/{checkpoint}/dispose")
def dispose(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    asked: Asked,
) -> Answer:  # fmt: skip
    """Give a savepoint up. Takes the right to delete one of the pipeline's DAGs."""
    return _say(response, asked, operations.dispose(asked.id, actor, str(checkpoint)))
