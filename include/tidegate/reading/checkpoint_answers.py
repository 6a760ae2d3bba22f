"""What is answered about one checkpoint: its phases, operators, subtasks, files, verdicts, failure and requester. No
logic.

Sizes are bytes, durations milliseconds, moments timezone-aware UTC; -1 means that nothing was reported.
"""

from dataclasses import dataclass
from datetime import datetime

from tidegate.protocol.facts.records import CheckpointRecord, SubtaskRecord, Verdict
from tidegate.reading.answer import Document, Handle, Moment, MomentOrNone, Number, RestoreAt
from tidegate.reading.history_answers import DagRun, Figures
from tidegate.reading.standing import Standing


class PhaseSpan(Document):
    """A step of the checkpoint: `TRIGGERED` (until all have acknowledged), `ACKNOWLEDGED` (until judged), `HELD`,
    `VALIDATED` (until the commit point), `COMPLETED` (until the sinks are notified), `NOTIFIED`, `FAILED`. `ended_at`
    is None while it lasts."""

    phase: str
    began_at: Moment
    ended_at: MomentOrNone


class SubtaskSpread(Document):
    """Over the subtasks that have acknowledged; all -1 without one. `skew` is the largest divided by the average."""

    min: Number
    avg: Number
    max: Number
    skew: Number


@dataclass(frozen=True, slots=True)
class OperatorAt:
    """An operator at this checkpoint, its subtasks together. `spreads` are by the names in `SUBTASK_FIGURES`."""

    operator_id: str
    role: str
    parallelism: int
    max_parallelism: int
    num_acknowledged: int
    num_finished: int
    max_attempt: int
    latest_ack_at: datetime | None
    checkpointed_size: int
    state_size: int
    files: int
    figures: Figures
    unaligned: bool
    spreads: dict[str, SubtaskSpread]


#: Of a subtask: what min, average, maximum and skew are shown of.
SUBTASK_FIGURES = (
    "end_to_end_duration",
    "checkpointed_size",
    "state_size",
    "processed_data",
    "persisted_data",
    "sync_duration",
    "async_duration",
    "alignment_duration",
    "start_delay",
    "rows_in",
    "rows_out",
)


@dataclass(frozen=True, slots=True)
class SubtaskList:
    """A page of an operator's subtasks by index, with their files. `next_index` is what to give as `after` for the page
    after it, None after the last."""

    operator_id: str
    subtasks: tuple[SubtaskRecord, ...]
    next_index: int | None


class FileLine(Document):
    """A file of a checkpoint: whose it is, and its handle with checksum."""

    operator_id: str
    subtask_index: int
    handle: Handle


class FileList(Document):
    """A page of files, by operator, subtask and order. `next_key` is opaque; None after the last."""

    files: tuple[FileLine, ...]
    next_key: str | None


class Failure(Document):
    """Why a checkpoint failed: the reason's sentence, the recorded message, what it means for the data, what to do."""

    reason: str
    sentence: str
    message: str
    advice: str


class Relations(Document):
    """How the checkpoint stands to restores: those that led to it, the one that left it behind, and the restore right
    before it was triggered. `forked_from` is said in words. `previous` and `next` are its neighbours in history."""

    restored_by: tuple[RestoreAt, ...]
    abandoned_by: RestoreAt | None
    follows_restore: RestoreAt | None
    forked_from: str | None
    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True)
class CheckpointPage:
    """All of one checkpoint but its subtasks and files, which come in pages. If it is `folded` it has none any more:
    `operators` say what they came to."""

    record: CheckpointRecord
    figures: Figures
    phases: tuple[PhaseSpan, ...]
    operators: tuple[OperatorAt, ...]
    verdicts: tuple[Verdict, ...]
    failure: Failure | None
    relations: Relations
    dag_run: DagRun | None
    standing: Standing
    folded: bool
    now: datetime
