"""The JSON API at `/tidegate/api/v1`: the content of the pages, for programs. It only reads; `actions` acts.

Fields that Flink's REST API has too carry its names (json-output.md). Every list comes in pages, and each answer has
the key of the next one.
"""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response

from tidegate.documents import pipeline_models as of_pipelines
from tidegate.documents.audit import Audit, audit_line
from tidegate.documents.restores import planned_restore
from tidegate.protocol.facts.paths import checkpoint_name
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.reading import checkpoint_answers as answers
from tidegate.reading.history_answers import CheckpointsOverview, History, HistoryFilter, QualityHistory
from tidegate.reading.pipeline_answers import Configuration, FilesRead, KeyLookup
from tidegate.ui.asking import Key, ReadingsDep
from tidegate.ui.auth import ReadableDags, User, users_of
from tidegate.ui.same_site import token_of
from tidegate.ui.schedules import NextRunsDep, known_runs

PREFIX = "/api/v1"


def _kept_nowhere(response: Response) -> None:
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"


api_routes = APIRouter(prefix=PREFIX, dependencies=[Depends(_kept_nowhere)])


#: The other answers that every route may give.
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": of_pipelines.Errors, "description": description}
    for status, description in (
        (400, "The request is not valid."),
        (401, "The login is missing or has expired."),
        (403, "The user does not have the right."),
        (404, "The object does not exist."),
        (422, "A part of the address or of the body is not valid."),
        (503, "The database or the checkpoint storage cannot be reached."),
    )
}
_LARGEST = 2**63 - 1
Document = dict[str, Any]
Pipeline = Annotated[str, Path(description="The pipeline's name.")]
Checkpoint = Annotated[int, Path(ge=1, le=_LARGEST, description="The checkpoint's id.")]
Plan = Annotated[UUID, Path(description="The id of the request for the plan.")]
At = Annotated[
    int | None,
    Query(alias="checkpoint", ge=1, le=_LARGEST, description="A checkpoint's id; by default the latest completed."),
]
SplitIndex = Annotated[int, Path(ge=0, le=2**31 - 1, description="The split's index.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Before = Annotated[int | None, Query(ge=1, le=_LARGEST, description="Return only checkpoints with a lower id.")]
Since = Annotated[
    datetime | None, Query(description="Return only checkpoints triggered at this time or later. Give a time zone.")
]
Until = Annotated[
    datetime | None, Query(description="Return only checkpoints triggered before this time. Give a time zone.")
]


def history_filter(
    status: Annotated[list[str] | None, Query(description="IN_PROGRESS, HELD, COMPLETED, FAILED, …")] = None,
    kind: Annotated[list[CheckpointKind] | None, Query()] = None,
    text: Annotated[str, Query(max_length=200, description="Part of a savepoint's name or of the request.")] = "",
    since: Since = None,
    until: Until = None,
) -> HistoryFilter:
    return HistoryFilter(frozenset(status or ()), frozenset(kind or ()), text, _with_zone(since), _with_zone(until))


def _with_zone(at: datetime | None) -> datetime | None:
    if at is not None and at.tzinfo is None:
        raise HTTPException(400, f"{at.isoformat()} has no time zone. Give one, such as {at.isoformat()}Z.")
    return at


@api_routes.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> Document:
    """Return this API's description."""
    where = f"{request.scope.get('root_path', '')}"
    routes = [route for route in request.app.routes if getattr(route, "path", "").startswith(PREFIX)]
    return get_openapi(title="Tidegate", version="1", routes=routes, servers=[{"url": where}] if where else None)


@api_routes.get("/token", responses=REFUSALS)
def token(request: Request, user: User) -> of_pipelines.Token:
    """Return the value of the header Tidegate-Token for user actions, valid for this login."""
    return of_pipelines.Token(token=token_of(users_of(request).credential(request)))


@api_routes.get("/pipelines", responses=REFUSALS)
def pipelines(
    readings: ReadingsDep,
    readable: ReadableDags,
    next_runs: NextRunsDep,
    after: Annotated[str | None, Query(description="The next_key of the previous page.")] = None,
    limit: Limit = 50,
    text: Annotated[str, Query(max_length=200, description="Part of the name.")] = "",
) -> of_pipelines.Pipelines:
    """List the pipelines that you may read, the most urgent first."""
    answer = readings.pipelines(readable, after, limit, text)
    runs = next_runs({dag_id for line in answer.lines for dag_id in line.dags})
    lines = [of_pipelines.Pipeline(**dict(line), next_runs=known_runs(line.dags, runs)) for line in answer.lines]
    return of_pipelines.Pipelines(pipelines=lines, next_key=answer.next_key, total=answer.total)


@api_routes.get("/pipelines/{pipeline}", responses=REFUSALS)
def pipeline_overview(
    readings: ReadingsDep, pipeline: Pipeline, next_runs: NextRunsDep
) -> of_pipelines.PipelineOverview:
    """Return a pipeline with its graph, at its latest completed checkpoint."""
    answer = readings.overview(pipeline)
    runs = known_runs(answer.line.dags, next_runs(answer.line.dags))
    return of_pipelines.PipelineOverview(**dict(answer), next_runs=runs)


@api_routes.get("/pipelines/{pipeline}/checkpoints", responses=REFUSALS)
def checkpoints(readings: ReadingsDep, pipeline: Pipeline, limit: Limit = 10) -> CheckpointsOverview:
    """Return counts, a summary, the latest checkpoint of each kind, and the newest part of the history."""
    newest = readings.history(pipeline, limit=limit)
    return CheckpointsOverview(**dict(readings.summary(pipeline)), **dict(newest))


@api_routes.get("/pipelines/{pipeline}/checkpoints/config", responses=REFUSALS)
def config(readings: ReadingsDep, pipeline: Pipeline) -> Configuration:
    """Return the options of the latest completed checkpoint, and the changes before it."""
    return readings.configuration(pipeline)


@api_routes.get("/pipelines/{pipeline}/checkpoints/{checkpoint}", responses=REFUSALS)
def checkpoint_details(readings: ReadingsDep, pipeline: Pipeline, checkpoint: Checkpoint) -> answers.CheckpointDetails:
    """Return a checkpoint with its tasks. Their subtasks come in pages."""
    return readings.checkpoint(pipeline, checkpoint)


@api_routes.get("/pipelines/{pipeline}/checkpoints/{checkpoint}/subtasks/{operator}", responses=REFUSALS)
def subtasks(
    readings: ReadingsDep,
    pipeline: Pipeline,
    checkpoint: Checkpoint,
    operator: str,
    after: Annotated[int, Query(ge=-1, le=2**31 - 1, description="The next_index of the previous page.")] = -1,
    limit: Limit = 200,
) -> answers.TaskWithSubtasks:
    """Return a task with its subtasks and their files."""
    task = readings.checkpoint(pipeline, checkpoint).tasks.get(operator)
    if task is None:
        raise HTTPException(404, f"Checkpoint {checkpoint} of pipeline {pipeline!r} has no operator {operator!r}.")
    page = readings.subtasks(pipeline, checkpoint, operator, after, limit)
    return answers.TaskWithSubtasks(**dict(task), **dict(page))


@api_routes.get("/pipelines/{pipeline}/checkpoints/{checkpoint}/files", responses=REFUSALS)
def files(
    readings: ReadingsDep, pipeline: Pipeline, checkpoint: Checkpoint, after: str | None = None, limit: Limit = 200
) -> answers.FileList:
    """Return the files of a checkpoint, with their checksums."""
    return readings.files(pipeline, checkpoint, after, limit)


@api_routes.get("/pipelines/{pipeline}/checkpoints/{checkpoint}/verdicts", responses=REFUSALS)
def verdicts(readings: ReadingsDep, pipeline: Pipeline, checkpoint: Checkpoint) -> tuple[answers.Verdict, ...]:
    """Return the verdicts on the staged data, with failing rows."""
    return readings.verdicts(pipeline, checkpoint)


@api_routes.get("/pipelines/{pipeline}/checkpoints/{checkpoint}/_metadata", response_class=Response)
def metadata(readings: ReadingsDep, pipeline: Pipeline, checkpoint: Checkpoint) -> Response:
    """Return the checkpoint's `_metadata`, as it is on checkpoint storage."""
    content = readings.metadata(pipeline, checkpoint)
    name = f"{checkpoint_name(checkpoint)}_metadata.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type="application/json", headers=headers)


@api_routes.get("/pipelines/{pipeline}/history", responses=REFUSALS)
def history(
    readings: ReadingsDep,
    pipeline: Pipeline,
    wanted: Annotated[HistoryFilter, Depends(history_filter)],
    before: Before = None,
    limit: Limit = 50,
) -> History:
    """List checkpoints, newest first."""
    return readings.history(pipeline, wanted, before, limit)


@api_routes.get("/pipelines/{pipeline}/series", responses=REFUSALS)
def series(
    readings: ReadingsDep,
    pipeline: Pipeline,
    points: Annotated[int, Query(ge=1, le=1000)] = 200,
    since: Since = None,
    until: Until = None,
) -> of_pipelines.Series:
    """Return completed checkpoints over time, aggregated into so many points."""
    return of_pipelines.Series(points=readings.series(pipeline, points, _with_zone(since), _with_zone(until)))


@api_routes.get("/pipelines/{pipeline}/sources", responses=REFUSALS)
def sources(readings: ReadingsDep, pipeline: Pipeline, at: At = None) -> of_pipelines.Sources:
    """Return the position of each source, and the files of its splits."""
    return of_pipelines.Sources(sources=readings.sources(pipeline, at))


@api_routes.get("/pipelines/{pipeline}/sources/{operator}/{split}", responses=REFUSALS)
def files_read(readings: ReadingsDep, pipeline: Pipeline, operator: str, split: SplitIndex, at: At = None) -> FilesRead:
    """Return the files that a split of a source has read in a checkpoint: their number, and the first 200."""
    return readings.files_read(pipeline, operator, split, at)


@api_routes.get("/pipelines/{pipeline}/state", responses=REFUSALS)
def state(readings: ReadingsDep, pipeline: Pipeline, at: At = None) -> of_pipelines.States:
    """Return the keyed state of each operator."""
    return of_pipelines.States(operators=readings.state(pipeline, at))


@api_routes.get("/pipelines/{pipeline}/state/{operator}", responses=REFUSALS)
def key_of_state(readings: ReadingsDep, pipeline: Pipeline, operator: str, key: Key, at: At = None) -> KeyLookup:
    """Return the key columns of an operator; with a key, its row and its history over the newest retained checkpoints.
    The history is not `complete` if there are more checkpoints, or if reading takes long.
    """
    return readings.key(pipeline, operator, at, key)


@api_routes.get("/pipelines/{pipeline}/tables", responses=REFUSALS)
def tables(readings: ReadingsDep, pipeline: Pipeline) -> of_pipelines.Tables:
    """Return the checkpoint that each sink shows, and those in doubt."""
    return of_pipelines.Tables(tables=readings.tables(pipeline))


@api_routes.get("/pipelines/{pipeline}/doubts", responses=REFUSALS)
def doubts(readings: ReadingsDep, pipeline: Pipeline) -> of_pipelines.Doubts:
    """Return completed checkpoints that not every table shows yet, with reason, time, effect on readers, and advice."""
    return of_pipelines.Doubts(doubts=readings.doubts(pipeline))


@api_routes.get("/pipelines/{pipeline}/quality", responses=REFUSALS)
def quality(
    readings: ReadingsDep,
    pipeline: Pipeline,
    target: Annotated[str | None, Query(description="A target; with suite, its history.")] = None,
    suite: str = "",
    before: Before = None,
    limit: Limit = 200,
) -> QualityHistory | of_pipelines.ValidatedTargets:
    """Return the validated targets; with a target and suite, each verdict, and each expectation as a series."""
    if target is None:
        return of_pipelines.ValidatedTargets(targets=readings.validated_targets(pipeline))
    return readings.quality(pipeline, target, suite, before, limit)


@api_routes.get("/pipelines/{pipeline}/restore-plans/{plan}", responses=REFUSALS)
def restore_plan(readings: ReadingsDep, pipeline: Pipeline, plan: Plan) -> of_pipelines.PlanDocument:
    """Return the plan of a restore as it is shown, and who confirmed it; `answer` is the outcome."""
    planned = readings.planned_restore(pipeline, str(plan))
    if planned is None:
        raise HTTPException(404, f"Plan {plan} of pipeline {pipeline!r} was not requested.")
    confirmed = planned.confirmed
    outcome = None if confirmed is None else readings.audited(pipeline, confirmed.request_id)
    return planned_restore(planned, outcome)


@api_routes.get("/pipelines/{pipeline}/audit", responses=REFUSALS)
def audit(
    readings: ReadingsDep,
    pipeline: Pipeline,
    before: Annotated[int | None, Query(ge=1, le=_LARGEST, description="The next_before of the previous page.")] = None,
    limit: Limit = 50,
) -> Audit:
    """List users' actions and the answers, newest first."""
    entries = readings.audit(pipeline, before, limit)
    more = entries[-1].number if len(entries) == limit else None
    return Audit(audit=tuple(map(audit_line, entries)), next_before=more)
