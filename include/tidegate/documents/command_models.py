"""The types of the JSON that commands print with `-o json`, by command; docs/schemas/ is generated from them.

A type that pages and API use too is in `reading`. Sizes are bytes, durations are milliseconds, timestamps are
milliseconds since 1970; -1 means that there is no value.
"""

from typing import Any

from pydantic import Field, TypeAdapter

from tidegate.documents.audit import Answer, AuditLine
from tidegate.documents.plan_models import ChangePlan, ForkPlan, Recovery, Replacement, Restore, Skip
from tidegate.protocol.cleaning.clean_report import Damage
from tidegate.protocol.facts.records import Deletion
from tidegate.protocol.recovery.comparison import Likeness, Part, Rows
from tidegate.reading.answer import Document, MomentOrNone
from tidegate.reading.checkpoint_answers import Checkpoint, HistoryLine, WholeCheckpoint
from tidegate.reading.history_answers import CheckpointStatistics
from tidegate.reading.lag_answers import Lag, PartLag
from tidegate.reading.pipeline_answers import DoubtAt


class DeliveredSink(Document):
    sink: str
    rows: int
    guarantee: str


class Taken(Checkpoint):
    """A checkpoint or savepoint that was taken, and the rows that it delivered to each sink."""

    sinks: list[DeliveredSink]


class Dropped(Document):
    """A request that was not admitted; nothing was started."""

    dropped: str
    message: str


class Statistics(CheckpointStatistics):
    """Flink's overview of the checkpoints, without the history, and the lag of the pipeline's sources, also by part,
    such as the partitions of a topic.
    """

    lag: tuple[Lag, ...]
    parts: tuple[PartLag, ...]


class Checked(Document):
    """The result of checking a definition; `problems` are sentences, empty if a run would accept it."""

    pipeline: str
    problems: list[str]


class Side(Document):
    pipeline: str
    checkpoint: int


class ComparedPart(Document):
    part: Part
    name: str
    likeness: Likeness
    columns_of_one_side: list[str]
    rows: list[Rows]


class Comparison(Document):
    """The differences between two pipelines."""

    same: bool
    pipelines: list[Side]
    compared: list[ComparedPart]


class Cost(Document):
    files: int
    bytes: int


class KeptFor(Document):
    reason: str
    until: MomentOrNone = Field(serialization_alias="until_timestamp")


class KeptCheckpoint(Document):
    """A retained checkpoint; `alone` is the cost of the files that nothing else refers to."""

    id: int
    is_savepoint: bool
    name: str | None
    completed_at: MomentOrNone
    reasons: list[KeptFor]
    why: str
    full: Cost
    alone: Cost


class Cleaned(Document):
    """The files of a pipeline that are kept, and those that were deleted or would be."""

    pipeline: str
    changed: bool
    kept: list[KeptCheckpoint]
    total: Cost
    expired_checkpoints: list[int]
    freed: Cost
    garbage: list[Deletion]
    withdrawn_checkpoints: dict[str, list[int]]
    withdrawn_for_good: dict[str, list[int]]
    unknown_checkpoints: list[int]
    verified: Cost
    damage: list[Damage]
    safe_checkpoints: list[int]
    summary: list[str]


class Health(Document):
    pipeline: str
    status: str
    well: bool
    stale: bool
    stale_since: MomentOrNone = Field(serialization_alias="stale_since_timestamp")
    failed_checkpoint: int | None
    failure_reason: str | None
    summary: str


class StateRows(Document):
    """The first rows of an operator's state, or the row of a key."""

    pipeline: str
    operator: str
    checkpoint: int
    num_rows: int
    rows: list[dict[str, Any]]


class StateChanges(Document):
    """The changes of an operator's state between two checkpoints. Each change has the columns of the state, and
    `_change`.
    """

    pipeline: str
    operator: str
    changes_since: int
    checkpoint: int
    num_changes: int
    changes: list[dict[str, Any]]


class RowAt(Document):
    checkpoint: int
    completed_at: MomentOrNone
    row: dict[str, Any] | None


class KeyHistory(Document):
    pipeline: str
    operator: str
    history: list[RowAt]


class Finding(Document):
    """One finding of `tidegate doctor`. `ok` is null if something is missing that not every project needs."""

    what: str
    ok: bool | None
    says: str
    mend: str | None


class EmbeddedServer(Document):
    directory: str
    pid: int | None
    port: int | None
    this_project: bool


class KnownPipeline(Document):
    pipeline: str
    registered: str | None
    status: str | None
    latest_checkpoint: int | None
    latest_status: str | None
    triggered_at: MomentOrNone = Field(serialization_alias="trigger_timestamp")


class StatusOf(Document):
    """The status of a pipeline after a command."""

    pipeline: str
    status: str
    since: MomentOrNone
    message: str | None


class Relocated(Document):
    pipeline: str
    moved: list[str]


class Rewritten(Document):
    """A savepoint that was written. `restore --from` with its `url` restores it."""

    pipeline: str
    checkpoint: int
    url: str
    bytes: int
    max_parallelism: int


_TAKEN = Taken | Dropped
_ANSWERED = ("abort", "approve", "dispose", "reject", "rename", "resume", "suspend")

#: The type for each command; spaces are hyphens.
COMMANDS: dict[str, Any] = {
    "audit": list[AuditLine],
    "cancel": StatusOf,
    "check": Checked,
    "checkpoint": _TAKEN | WholeCheckpoint,
    "checkpoints": list[HistoryLine],
    "clean": list[Cleaned],
    "compare": Comparison,
    "db-status": list[EmbeddedServer],
    "doctor": list[Finding],
    "doubts": list[DoubtAt],
    "fork": ForkPlan,
    "pipelines": list[KnownPipeline],
    "plan": ChangePlan,
    "recover": Recovery,
    "relocate": Relocated,
    "restore": Restore,
    "rewrite": Rewritten,
    "run": _TAKEN,
    "savepoint": _TAKEN | WholeCheckpoint,
    "source-replace": Replacement,
    "source-skip": Skip,
    "savepoints": list[Checkpoint],
    "state": StateRows | StateChanges | KeyHistory,
    "stats": Statistics,
    "stop": _TAKEN,
    "watch": list[Health],
} | dict.fromkeys(_ANSWERED, Answer)


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's output."""
    made: dict[str, Any] = TypeAdapter(COMMANDS[command]).json_schema(mode="serialization")
    about = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tidegate {command.replace('-', ' ')}",
    }
    return made | about
