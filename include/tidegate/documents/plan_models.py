"""The types of the plans that commands print with `-o json`: of changes, restores, forks and recoveries."""

from pydantic import Field

from tidegate.protocol.recovery.restore_plan import ReturningState
from tidegate.reading.answer import Document
from tidegate.reading.checkpoint_answers import Checkpoint, ForkedFrom


class PlannedVertex(Document):
    kind: str
    name: str
    verdict: str
    changes: list[str]
    way_out: str | None
    table: str | None
    commits: str | None


class ChangePlan(Document):
    """The effect of this code on the pipeline's state."""

    pipeline: str
    status: str
    checkpoint: int | None
    can_go_on: bool
    summary: str
    vertices: list[PlannedVertex]


class Edited(Document):
    by: str
    at: str = Field(serialization_alias="at")
    origin: str
    base: int | None
    changes: list[str]
    description: str


class ReadAgain(Document):
    source: str
    files: int
    bytes: int
    missing: list[str]


class Lost(Document):
    """Rows of a part of a source, such as a partition of a topic, that are never read. `first` and `last` are their
    range, and reading continues at `next`. `last` is null if unknown, `next` if the part no longer exists.
    """

    part: str
    first: int
    last: int | None
    next: int | None


class SkippedAfter(Document):
    """Rows that were skipped after a checkpoint, and are reached again after a restore to an earlier one."""

    source: str
    checkpoint: int
    lost: list[Lost]


class Withdrawal(Document):
    sink: str
    can_rewind: bool
    withdrawn_checkpoints: list[int]
    files: int
    rows: int | None
    bytes: int


class Restore(Document):
    """The effect of a restore."""

    checkpoint: Checkpoint
    copied_from: str | None
    edited: Edited | None
    moved: list[str]
    latest_checkpoint: int | None
    undoes_restore: int | None
    abandoned_checkpoints: list[int]
    returning_checkpoints: list[int]
    aborted_checkpoints: list[int]
    sources: list[ReadAgain]
    skipped: list[SkippedAfter]
    operators: list[ReturningState]
    sinks: list[Withdrawal]


class Skip(Document):
    """The rows that a source skips, or would skip, after the checkpoint that the next one continues from."""

    pipeline: str
    source: str
    checkpoint: int
    aborted_checkpoints: list[int]
    lost: list[Lost]


class FileVersion(Document):
    """A version of a file. `checksum` is null if it was not recorded."""

    bytes: int
    modified_timestamp: int
    checksum: str | None


class ReplacedFile(Document):
    file: str
    read_by_checkpoint: int
    then: FileVersion
    now: FileVersion | None


class Replacement(Document):
    """Files that are accepted as they are now, and the restore that goes with it."""

    pipeline: str
    source: str
    files: list[ReplacedFile]
    restore: Restore


class TakenOver(Document):
    source: str
    taken_over: bool
    files: int | None
    bytes: int | None


class FilledSink(Document):
    sink: str
    filled_from_state: bool


class ForkPlan(Document):
    """The effect of a fork."""

    pipeline: str
    forked_from: ForkedFrom | None
    checkpoint: Checkpoint
    copied_from: str | None
    moved: list[str]
    sources: list[TakenOver]
    operators: list[ReturningState]
    new_operators: list[str]
    sinks: list[FilledSink]


class RecoveredCheckpoint(Checkpoint):
    was_in_doubt: bool


class InDoubt(Document):
    id: int
    reason: str


class NotRecovered(InDoubt):
    had_completed: bool


class Recovery(Document):
    """The recoverable checkpoints of a pipeline whose database was lost."""

    pipeline: str
    storage: str
    latest_checkpoint: int
    checkpoints: list[RecoveredCheckpoint]
    in_doubt: list[InDoubt]
    not_recovered: list[NotRecovered]
    lost_checkpoints: list[int]
    moved: list[str]
    last_checkpoint_id: int
