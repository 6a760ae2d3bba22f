"""The types of the documents about pipelines: what each route of the API answers with.

A list comes in pages: `next_key`, `next_before` or `next_index` is what to give for the next one, null after the last.
"""

from typing import Any

from pydantic import ConfigDict, Field

from tidegate.documents.checkpoint_models import Checkpoint, HistoryLine, Kind
from tidegate.protocol.observing.gestures import ActorKind, AnswerStatus, GestureKind
from tidegate.protocol.observing.statistics import Counts, Summary
from tidegate.reading.answer import Document, MomentOrNone
from tidegate.reading.history_answers import JudgedTarget, Point
from tidegate.reading.pipeline_answers import Overview, PipelineLine, SourceAt, StateAt, TableAt


class NextRun(Document):
    """When a DAG runs next by its schedule; -1 if it has none, or if there will be no further run."""

    dag_id: str
    run_after: MomentOrNone = Field(serialization_alias="run_after_timestamp")
    is_paused: bool


class Pipeline(PipelineLine):
    next_runs: list[NextRun]


class PipelineOverview(Overview):
    next_runs: list[NextRun]


class Pipelines(Document):
    pipelines: list[Pipeline]
    next_key: str | None
    total: int


class PipelineStatus(Document):
    status: str
    since_timestamp: int
    message: str | None


class Restored(Document):
    """The checkpoint that the pipeline last went on from."""

    id: int
    checkpoint_type: Kind
    is_savepoint: bool
    restore_timestamp: int
    external_path: str | None


class Latest(Document):
    completed: Checkpoint | None
    failed: Checkpoint | None
    savepoint: Checkpoint | None
    restored: Restored | None


class History(Document):
    history: list[HistoryLine]
    next_before: int | None


class CheckpointsOverview(History):
    """Flink's overview of a job's checkpoints."""

    pipeline: PipelineStatus
    counts: Counts
    summary: dict[str, Summary]
    held: Checkpoint | None
    latest: Latest


class Series(Document):
    points: tuple[Point, ...]


class Sources(Document):
    sources: tuple[SourceAt, ...]


class States(Document):
    operators: tuple[StateAt, ...]


class Tables(Document):
    tables: tuple[TableAt, ...]


class JudgedTargets(Document):
    judged: tuple[JudgedTarget, ...]


class Actor(Document):
    kind: ActorKind
    name: str
    origin: str


class Answer(Document):
    """What became of a gesture: the first answer, however often it is asked."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    request_id: str
    status: AnswerStatus
    sentence: str
    checkpoint: int | None
    #: Where to see what becomes of it, if a DAG run does it.
    page: str | None = None


class AuditLine(Answer):
    number: int
    pipeline: str | None
    timestamp: int
    kind: GestureKind
    actor: Actor
    details: dict[str, Any]


class Audit(Document):
    audit: list[AuditLine]
    next_before: int | None


class DagRunOf(Document):
    dag_id: str
    run_id: str


class AskedOnPage(Document):
    request_id: str
    by: str
    origin: str
    timestamp: int
    dag_run: DagRunOf


class PlanDocument(Document):
    """A restore that a page has asked for. `plan` is as `tidegate restore --dry-run -o json` prints it, with the number
    of `missing_files` of each source, whose names are the first."""

    request_id: str
    pipeline: str
    to: str
    asked: AskedOnPage
    planned_timestamp: int
    plan: dict[str, Any] | None
    digest: str | None
    refusal: str | None
    confirmed: AskedOnPage | None
    accepted: dict[str, Any] | None
    answer: AuditLine | None


class Token(Document):
    token: str


class Errors(Document):
    """What happened, in sentences."""

    errors: list[str]
