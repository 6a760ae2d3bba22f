"""The types of the documents about pipelines: what each route of the API answers with.

Where an answer is shown as it is, its type is derived from it. A list comes in pages: `next_key`, `next_before` or
`next_index` is what to give for the next one, null after the last.
"""

from typing import Any

from pydantic import create_model

from tidegate.documents.checkpoint_models import Checkpoint, HistoryLine, Kind, Numbers, Statistic
from tidegate.documents.derived import Document, model_of
from tidegate.protocol.observing.gestures import ActorKind, AnswerStatus, GestureKind
from tidegate.reading.checkpoint_answers import FileList
from tidegate.reading.history_answers import JudgedTarget, Point, QualityHistory
from tidegate.reading.pipeline_answers import (
    FilesRead,
    KeyLookup,
    OptionsAt,
    Overview,
    PipelineLine,
    SourceAt,
    StateAt,
    TableAt,
)


class NextRun(Document):
    """When a DAG runs next by its schedule; -1 if it has none, or if there will be no further run."""

    dag_id: str
    run_after_timestamp: int
    is_paused: bool


_RUNS: dict[str, Any] = {"next_runs": (list[NextRun], ...)}
PipelineDocument: Any = create_model("Pipeline", __base__=model_of(PipelineLine), **_RUNS)
OverviewDocument: Any = create_model("PipelineOverview", __base__=model_of(Overview), **_RUNS)
Files: Any = model_of(FileList)
FilesReadDocument: Any = model_of(FilesRead)
KeyDocument: Any = model_of(KeyLookup)
Options: Any = model_of(OptionsAt)
Judged: Any = model_of(JudgedTarget)
QualityDocument: Any = model_of(QualityHistory)
PointDocument: Any = model_of(Point)
SourceDocument: Any = model_of(SourceAt)
StateDocument: Any = model_of(StateAt)
TableDocument: Any = model_of(TableAt)


class Pipelines(Document):
    pipelines: list[PipelineDocument]
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
    counts: Numbers
    summary: dict[str, Statistic]
    held: Checkpoint | None
    latest: Latest


class Externalization(Document):
    enabled: bool
    delete_on_cancellation: bool


class Configuration(Document):
    """Flink's configuration where the thing is the same; `options` are those of `CheckpointConfig` by name, and
    `changes` what was changed at which checkpoint."""

    mode: str | None
    interval: int | None
    timeout: int | None
    min_pause: int | None
    max_concurrent: int | None
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool | None
    aligned_checkpoint_timeout: int | None
    tolerable_failed_checkpoints: int | None
    checkpoints_after_tasks_finish: bool | None
    state_changelog_enabled: bool
    options: dict[str, Any]
    checkpoint: int | None
    changes: list[Options]
    unreadable: dict[str, str]


class Series(Document):
    points: list[PointDocument]


class Sources(Document):
    sources: list[SourceDocument]


class States(Document):
    operators: list[StateDocument]


class Tables(Document):
    tables: list[TableDocument]


class JudgedTargets(Document):
    judged: list[Judged]


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
