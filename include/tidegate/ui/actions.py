"""User actions on a pipeline over HTTP: one route each, for the pages and for programs.

`auth` decides about permissions, for all of them. A request that is repeated with the same id is not carried out again,
and gets the first answer. 503: the outcome is unknown; retry with the same id.
"""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tidegate.documents.audit import AnswerOnPage as Answer
from tidegate.documents.audit import answer_of
from tidegate.documents.pipeline_models import Errors
from tidegate.protocol.facts.names import run_id_of
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionAnswer, AnswerStatus
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.steps.hold import LONGEST_COMMENT
from tidegate.protocol.text.storable import LONGEST_TEXT
from tidegate.ui import by_dag_run
from tidegate.ui.api import PREFIX, REFUSALS, Checkpoint, Pipeline, Plan
from tidegate.ui.asking import OperationsDep, ReadingsDep
from tidegate.ui.auth import ActorDep, User
from tidegate.ui.bodies import ActionRoute
from tidegate.ui.by_dag_run import Desk
from tidegate.ui.dag_runs import DagRunsDep
from tidegate.ui.shell import links_of

_REFUSED = {"model": Answer, "description": "The action was refused, and nothing was changed."}
_TOO_LONG = {"model": Errors, "description": "The body is too long."}
action_routes = APIRouter(
    prefix=f"{PREFIX}/pipelines/{{pipeline}}",
    responses={**REFUSALS, 409: _REFUSED, 413: _TOO_LONG},
    route_class=ActionRoute,
)

Text = Annotated[str | None, Field(max_length=LONGEST_TEXT)]


class ActionRequest(BaseModel):
    """A request for a user action. The client generates `request_id` before it sends the request."""

    model_config = ConfigDict(extra="forbid")
    request_id: UUID

    @property
    def id(self) -> str:
        return str(self.request_id)


class Decided(ActionRequest):
    comment: Annotated[str | None, Field(max_length=LONGEST_COMMENT)] = None


class Labelled(ActionRequest):
    """A request to rename. Omitted values stay as they are."""

    name: Text = None
    note: Text = None


class Drained(Labelled):
    """A request that `dag_id` directs to one of several DAGs."""

    dag_id: Text = None


class Requested(Drained):
    """A request for a checkpoint. `STOP` takes a savepoint, with which the pipeline stops until it is resumed."""

    kind: Literal["CHECKPOINT", "SAVEPOINT", "STOP"]

    @property
    def checkpoint_kind(self) -> CheckpointKind:
        return CheckpointKind.SYNC_SAVEPOINT if self.kind == "STOP" else CheckpointKind(self.kind)


class PlanRequest(ActionRequest):
    """A request for a plan. `to` is the number of a checkpoint, or `undo` for the last restore."""

    to: Annotated[str, Field(max_length=30)]


class Confirmed(ActionRequest):
    """The parts of a plan that a user accepts, as the options of `tidegate restore`."""

    skip_missing_files: bool = False
    leave: Annotated[list[Annotated[str, Field(max_length=LONGEST_TEXT)]], Field(max_length=1000)] = []
    allow_non_restored_state: bool = False


def _desk(operations: OperationsDep, runs: DagRunsDep, user: User, actor: ActorDep) -> Desk:
    return Desk(operations, runs, user, actor)


DeskDep = Annotated[Desk, Depends(_desk)]


def _answer(response: Response, body: ActionRequest, answer: ActionAnswer, page: str | None = None) -> Answer:
    """Return the answer of an action. `page` is the address that shows its progress."""
    response.status_code = 200 if answer.status is AnswerStatus.DONE else 409
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return Answer(**dict(answer_of(body.id, answer)), page=page)


@action_routes.post("/suspend")
def suspend(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, body: ActionRequest
) -> Answer:
    """Stop taking checkpoints until the pipeline is resumed. A checkpoint in progress is aborted."""
    return _answer(response, body, operations.suspend(body.id, actor))


@action_routes.post("/resume")
def resume(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, body: ActionRequest
) -> Answer:
    """Resume taking checkpoints, from the latest completed one."""
    return _answer(response, body, operations.resume(body.id, actor))


@action_routes.post("/cancel")
def cancel(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, body: ActionRequest
) -> Answer:
    """Cancel the pipeline for good. Requires the right to delete one of its DAGs."""
    return _answer(response, body, operations.cancel(body.id, actor))


@action_routes.post("/requests")
def request_checkpoint(
    request: Request, response: Response, desk: DeskDep, readings: ReadingsDep, pipeline: Pipeline, body: Requested
) -> Answer:
    """Request a checkpoint or savepoint, or stop with a savepoint. The continuous region takes it if one is running,
    else a run of the pipeline's DAG.
    """
    return _take(request, response, desk, readings, body, body.checkpoint_kind)


@action_routes.post("/drain")
def drain(
    request: Request, response: Response, desk: DeskDep, readings: ReadingsDep, pipeline: Pipeline, body: Drained
) -> Answer:
    """Stop with a savepoint and count the inputs as ended, for good. Requires the right to delete one of the pipeline's
    DAGs.
    """
    return _take(request, response, desk, readings, body, CheckpointKind.SYNC_SAVEPOINT, drain=True)


def _take(
    request: Request, response: Response, desk: Desk, readings: ReadingsDep, body: Drained, kind: CheckpointKind,
    drain: bool = False,
) -> Answer:  # fmt: skip
    label, dag = Label(body.name, body.note), None
    if not desk.operations.has_live_region():
        dag = by_dag_run.choose_dag(desk, readings.dags(desk.pipeline), body.dag_id)
    if dag is None:
        answer = desk.operations.request(body.id, desk.actor, kind, label, drain, body.dag_id)
        return _answer(response, body, answer)
    answer = by_dag_run.take(desk, body.id, kind, label, drain, body.dag_id, dag)
    page = links_of(request).dag_run(dag, run_id_of(body.id)) if answer.status is AnswerStatus.DONE else None
    return _answer(response, body, answer, page)


@action_routes.post("/plan-restore")
def plan_restore(request: Request, response: Response, desk: DeskDep, pipeline: Pipeline, body: PlanRequest) -> Answer:
    """Start a DAG run that plans a restore, which changes nothing. Requires the right to delete one of the pipeline's
    DAGs, and to trigger the DAG that restores it.
    """
    answer = by_dag_run.plan(desk, body.id, body.to)
    page = links_of(request).plan(pipeline, body.id) if answer.status is AnswerStatus.DONE else None
    return _answer(response, body, answer, page)


@action_routes.post("/restore-plans/{plan}/restore")
def restore(response: Response, desk: DeskDep, pipeline: Pipeline, plan: Plan, body: Confirmed) -> Answer:
    """Start a DAG run that carries out a plan as it was shown. Requires the same rights as the plan. The outcome is in
    the audit log, by the id of this request.
    """
    accepted = Accepted(body.skip_missing_files, tuple(sorted(set(body.leave))), body.allow_non_restored_state)
    return _answer(response, body, by_dag_run.restore(desk, str(plan), body.id, accepted))


@action_routes.post("/checkpoints/{checkpoint}/abort")
def abort(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    body: ActionRequest,
) -> Answer:  # fmt: skip
    """Abort a checkpoint in progress. The pipeline keeps running."""
    return _answer(response, body, operations.abort(body.id, actor, checkpoint))


@action_routes.post("/checkpoints/{checkpoint}/approve")
def approve(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    body: Decided,
) -> Answer:  # fmt: skip
    """Complete a held checkpoint although a verdict failed."""
    return _answer(response, body, operations.approve(body.id, actor, checkpoint, body.comment))


@action_routes.post("/checkpoints/{checkpoint}/reject")
def reject(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    body: Decided,
) -> Answer:  # fmt: skip
    """Abort a held checkpoint."""
    return _answer(response, body, operations.reject(body.id, actor, checkpoint, body.comment))


@action_routes.post("/checkpoints/{checkpoint}/rename")
def rename(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    body: Labelled,
) -> Answer:  # fmt: skip
    """Change a savepoint's name, note, or both."""
    return _answer(response, body, operations.rename(body.id, actor, str(checkpoint), Label(body.name, body.note)))


@action_routes.post("/checkpoints/{checkpoint}/dispose")
def dispose(
    response: Response, operations: OperationsDep, actor: ActorDep, pipeline: Pipeline, checkpoint: Checkpoint,
    body: ActionRequest,
) -> Answer:  # fmt: skip
    """Dispose of a savepoint. Requires the right to delete one of the pipeline's DAGs."""
    return _answer(response, body, operations.dispose(body.id, actor, str(checkpoint)))
