"""The contracts between the coordinator and the world: what each adapter must give, and what it need not.

An adapter makes no decision about safety; those are taken in `tidegate.protocol` from the facts an adapter reports.
Third-party types appear as `Any` so that importing this file costs nothing at DAG parse.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from tidegate.protocol.errors import CheckpointError
from tidegate.protocol.lifecycle import Phase
from tidegate.protocol.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointRecord,
    CheckpointRequest,
    CompactedRun,
    Deletion,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.regions import RegionRecord
from tidegate.protocol.snapshot import SnapshotTask
from tidegate.protocol.statistics import Statistics


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, timezone-aware UTC."""
        ...


class StoreTransaction(Protocol):
    """One transaction on one pipeline, serialised with every other transaction on it (protocol.md section 1: all
    coordinator changes happen under one lock). Reads see the transaction's own writes. Methods that move a checkpoint
    answer False when it was not where they expected it: the race was lost and nothing was changed.
    """

    # -- facts
    def checkpoint(self, checkpoint_id: int) -> CheckpointRecord | None: ...
    def latest_by_request(self, request_id: str) -> CheckpointRecord | None:
        """The newest checkpoint that this request asked for."""
        ...

    def in_progress(self) -> list[CheckpointRecord]:
        """Oldest first."""
        ...

    def retained(self) -> list[CheckpointRecord]:
        """Checkpoints with status COMPLETED, oldest first."""
        ...

    def latest_completed(self) -> CheckpointRecord | None: ...
    def subtasks(
        self, checkpoint_id: int, only: Iterable[SubtaskId] | None = None
    ) -> dict[SubtaskId, SubtaskRecord]: ...
    def verdicts(self, checkpoint_id: int) -> list[Verdict]: ...
    def compactions(self) -> list[CompactedRun]: ...
    def pipeline(self) -> PipelineRecord: ...
    def requests(self) -> list[CheckpointRequest]:
        """All that wait, and those dropped whose owners have not heard of it yet; in no particular order."""
        ...

    def failed_after(self, checkpoint_id: int) -> list[CheckpointRecord]:
        """Checkpoints with status FAILED and a higher id, oldest first."""
        ...

    def cleaning(self) -> int:
        """How many checkpoints are SUBSUMED, and so wait for their files to be deleted."""
        ...

    def region(self) -> RegionRecord: ...
    def latest_subsumed(self) -> int | None:
        """The newest checkpoint that is SUBSUMED or DISCARDED."""
        ...

    # -- writes
    def move_pipeline(
        self, after: PipelineStatus, at: datetime, message: str | None = None, forgiven_until: int | None = None
    ) -> None:
        """Raises `PipelineStatusError` where the transition is not legal."""
        ...

    def put_request(self, request: CheckpointRequest) -> None:
        """Record a request, or what is new about it."""
        ...

    def remove_requests(self, request_ids: Sequence[str]) -> None: ...
    def begin_region(self, at: datetime) -> int:
        """Register the next attempt of a region, seen now, and return it; an older one is overtaken."""
        ...

    def touch_region(self, attempt: int, at: datetime) -> bool:
        """Record a sign of life. False if another attempt has taken over or it was ended."""
        ...

    def end_region(self, attempt: int, at: datetime) -> bool:
        """False if another attempt has taken over or it was ended before."""
        ...

    def record_restore(self, checkpoint_id: int, at: datetime) -> None:
        """Count that somebody went on from this completed checkpoint after a failure or as a new region."""
        ...

    def next_checkpoint_id(self) -> int:
        """Strictly increasing per pipeline, starting at 1, never given twice even if this transaction rolls back is
        not required: an id counts only once its checkpoint is recorded."""
        ...

    def add_pending(self, record: CheckpointRecord, subtasks: Sequence[SubtaskId]) -> None:
        """Record a checkpoint and its expected subtasks, all with attempt 0."""
        ...

    def begin_attempt(self, checkpoint_id: int) -> int:
        """Give every subtask that has not acknowledged the next attempt number, and return it."""
        ...

    def record_acknowledgements(
        self, checkpoint_id: int, acknowledgements: Sequence[Acknowledgement], at: datetime
    ) -> int:
        """Store snapshots of subtasks that have not acknowledged yet; returns how many subtasks still have not. One that
        nobody asked (attempt 0) must have finished."""
        ...

    def advance(self, checkpoint_id: int, before: Phase, after: Phase, at: datetime) -> bool:
        """Move an IN_PROGRESS checkpoint from one phase to the next."""
        ...

    def record_verdicts(self, checkpoint_id: int, verdicts: Sequence[Verdict]) -> None:
        """Replace the checkpoint's verdicts."""
        ...

    def complete(
        self, checkpoint_id: int, at: datetime, metadata_path: str, state_size: int, checkpointed_size: int
    ) -> bool:
        """IN_PROGRESS/VALIDATED -> COMPLETED. Committing this transaction is the commit point."""
        ...

    def fail(self, checkpoint_id: int, reason: FailureReason, message: str, at: datetime) -> bool:
        """IN_PROGRESS -> FAILED, and enqueue for deletion what only this checkpoint refers to (see `subsume`), as given
        up by it."""
        ...

    def subsume(self, checkpoint_ids: Sequence[int]) -> None:
        """COMPLETED -> SUBSUMED, and enqueue for deletion what no live checkpoint refers to any more (see `release`).

        Live references are the handles of the subtasks of checkpoints that are IN_PROGRESS or COMPLETED, and those of
        compacted runs. What was referred to by the checkpoints that leave and by nothing live is garbage: `STAGED`
        handles go to the queue under owner `sink:<operator_id>`, all others under `storage`, and a `metadata_path`
        under `storage`.
        """
        ...

    def mark_notified(self, checkpoint_id: int, at: datetime) -> None: ...
    def add_compactions(self, compactions: Sequence[CompactedRun]) -> None: ...
    def remove_compactions(self, paths: Sequence[str]) -> None:
        """Forget compacted runs by the path of their handle; a file that nothing live refers to is enqueued."""
        ...

    # -- garbage
    def enqueue_deletions(self, deletions: Sequence[Deletion], given_up_by: int | None = None) -> None:
        """Queue files, in the order given; one that is in the queue stays as it is. `given_up_by` is the checkpoint whose
        reports named them and did not count: see `pending_deletions`."""
        ...

    def pending_deletions(self, limit: int) -> list[Deletion]:
        """Oldest first; none that something live refers to, and none that the region which runs may still refer to.

        Those are files below its directory that a checkpoint has given up (by failing, or see `enqueue_deletions`) while
        no checkpoint with a higher id has completed.
        """
        ...

    def remove_deletions(self, deletions: Sequence[Deletion]) -> None: ...
    def mark_discarded(self) -> None:
        """SUBSUMED -> DISCARDED for those with nothing left in the deletion queue."""
        ...

    def unswept(self) -> dict[int, datetime]:
        """Ended checkpoints whose directories may still hold files of crashed or superseded attempts: when each ended,
        oldest first."""
        ...

    def mark_swept(self, checkpoint_ids: Sequence[int]) -> None: ...
    def live_paths(self, checkpoint_id: int) -> set[Deletion]:
        """(owner, path) of everything live that this checkpoint created, its metadata included."""
        ...

    def live_below(self, directory: str) -> set[Deletion]:
        """Everything live on checkpoint storage below a directory."""
        ...

    def mark_regions_swept(self, attempt: int) -> None:
        """Nothing of this attempt of a region, or an older one, need be looked for any more."""
        ...


class CheckpointStore(Protocol):
    """Durable record of checkpoints. After `transaction` exits normally, everything in it is durable; after it raises,
    nothing is, except after `UnknownOutcomeError`: then read again to find out. `StoreUnavailableError` means that
    nothing happened.
    """

    def transaction(self, pipeline_id: str) -> AbstractContextManager[StoreTransaction]: ...
    def pipelines(self) -> list[str]: ...
    def pipeline(self, pipeline_id: str) -> PipelineRecord | None:
        """None for one that never was asked for anything."""
        ...

    def region(self, pipeline_id: str) -> RegionRecord: ...
    def checkpoint(self, pipeline_id: str, checkpoint_id: int) -> CheckpointRecord | None: ...
    def history(self, pipeline_id: str, limit: int) -> list[CheckpointRecord]:
        """Newest first."""
        ...

    def statistics(self, pipeline_id: str) -> Statistics: ...
    def subtasks(self, pipeline_id: str, checkpoint_id: int) -> dict[SubtaskId, SubtaskRecord]: ...
    def verdicts(self, pipeline_id: str, checkpoint_id: int) -> list[Verdict]: ...
    def wait_for_change(self, pipeline_id: str, timeout: float) -> bool:
        """Block until something about the pipeline was committed (True) or `timeout` seconds passed (False)."""
        ...


class CheckpointStorage(Protocol):
    """Where state lies. Paths are relative to `url` and never leave it. What was written is read back at once, whole.

    Raises `StorageError` (cannot), `StateIntegrityError` (missing or damaged).
    """

    url: str

    def write(self, path: str, content: bytes) -> None:
        """All or nothing; replaces."""
        ...

    def read(self, path: str) -> bytes: ...
    def list(self, prefix: str) -> list[str]:
        """All files below a directory, at any depth, as paths that `read` takes; none if it does not exist."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Missing files are fine; directories left empty are removed."""
        ...


@dataclass(frozen=True, slots=True)
class Segment:
    """A bounded, replayable piece of data in a channel: a reference, never the rows (design.md section 1).

    `reference` is JSON that only the source understands: a list of files, an offset range.
    """

    split: int
    reference: Mapping[str, Any]
    bytes: int


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source split needs to record its position: where, under which name, and as part of which checkpoint."""

    storage: CheckpointStorage
    checkpoint_id: int
    prefix: str  # path prefix, unique to this subtask and attempt, below which it may write


class Source(Protocol):
    """A replayable input. It keeps nothing in memory between calls: its position is in the snapshots.

    It may have more: `quarantine`, a `Sink` for malformed rows, and `is_behind(split, segment) -> bool`, whether more has
    arrived than the poll that gave this segment took.
    """

    schema: str  # Spark DDL of the rows

    def num_splits(self) -> int: ...
    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        """What has arrived since `restored`, within the source's limit, and the snapshot that says it was read: `finished`
        if nothing will ever follow from this split. Then it is not polled again.

        Raises `SourceChangedError` if what was read before is no longer what it was.
        """
        ...

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        """The segment between two snapshots, the same that `poll` gave when it made `taken`."""
        ...

    def read(self, spark: Any, segments: Sequence[Segment], output: str = "rows") -> Any:
        """A lazy DataFrame over the segments, in the source's schema; `output` may be `malformed` where it is kept.

        Its rows must not depend on the id of the Spark partition they are read in: a small batch is read in one.
        """
        ...

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        """What to raise instead of an error of Spark, if it comes from reading these segments: Spark reads late, in the
        middle of somebody else's job."""
        ...

    def describe(self) -> dict[str, Any]:
        """JSON for the checkpoint's metadata: class and options, no secrets."""
        ...


class SinkInput(StrEnum):
    CHANGES = "CHANGES"  # the rows this checkpoint produced
    CURRENT = "CURRENT"  # every current row of the operator's state, whenever a subtask's part of it changed


class DeliveryGuarantee(StrEnum):
    """How often a row reaches the readers of a sink when something fails on the way (protocol.md section 17)."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"  # never lost, but perhaps there twice


@dataclass(frozen=True, slots=True)
class StageContext:
    """Names what one subtask's attempt stages, so that no other attempt, Spark retry or speculation can collide."""

    checkpoint_id: int
    subtask_index: int
    attempt: int
    unique: str  # differs for every execution


class SinkWriter(Protocol):
    """Runs on executors: picklable, importing only the standard library, numpy, pyarrow and `tidegate.state`."""

    def stage(self, rows: Any, context: StageContext) -> list[StateHandle]:
        """Write a `pyarrow.Table` where no reader sees it; STAGED handles, paths relative to the sink's root."""
        ...


class Sink(Protocol):
    """A transactional output: staged during the snapshot, made visible by `commit` after the checkpoint completed."""

    input: SinkInput
    guarantee: DeliveryGuarantee  # what it can give; AT_LEAST_ONCE if a repeated `commit` may show rows again

    def writer(self) -> SinkWriter: ...
    def read_staged(self, spark: Any, staged: Sequence[StateHandle]) -> Any:
        """A DataFrame over staged (not yet visible) files; None if there are none, whose columns only the stream knows."""
        ...

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
        """Make the staged rows visible, all at once. Idempotent: it will be repeated after crashes."""
        ...

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        """Everything that any attempt of this checkpoint left in staging, acknowledged or not."""
        ...

    def discard(self, paths: Sequence[str]) -> None:
        """Delete staged files; never rows that readers see. Missing ones are fine."""
        ...

    def describe(self) -> dict[str, Any]: ...


Acknowledge = Callable[[Sequence[Acknowledgement]], Mapping[SubtaskId, AcknowledgeResult]]


class Region(Protocol):
    """Executes a pipeline's operators: on Spark in production, in process for the protocol's own tests."""

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledge) -> None:
        """Take the cut: acknowledge source splits first, in one call, then operators as they finish."""
        ...

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        """Merge runs where there are too many; an empty list when there is nothing worth doing."""
        ...

    def frame(self, target: str, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> Any:
        """What a verdict's `target` is about, as a DataFrame: staged rows, state, or a check's own query over them."""
        ...


@dataclass(frozen=True, slots=True)
class Declined:
    """A part of a continuous region gave a checkpoint up, or could not write its snapshot."""

    checkpoint_id: int
    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class Round:
    """What came of one round of a continuous region. `idle`: nothing had arrived and nothing was left to do. `behind`:
    more has arrived than was taken in. `ended`: every source has been read to its end, and no checkpoint says yet that all has
    finished."""

    acknowledgements: Sequence[Acknowledgement]
    declined: Sequence[Declined]
    idle: bool
    behind: bool
    ended: bool


class ContinuousRegion(Protocol):
    """Executes a pipeline's operators on and on, and takes part in checkpoints in between; one at a time.

    Whatever a method raises: this attempt at running the pipeline is over, and the next one goes on from the latest
    completed checkpoint.
    """

    def advance(self) -> Round:
        """Take in what has arrived, within limits, and process it."""
        ...

    def begin(self, task: SnapshotTask) -> None:
        """Put the barrier of a checkpoint at the sources' positions. The one before it must have ended."""
        ...

    def completed(self, checkpoint_id: int) -> None:
        """The checkpoint that was begun last has completed."""
        ...

    def aborted(self, checkpoint_id: int, latest_completed: int) -> None:
        """The checkpoint that was begun last was given up; `latest_completed` is -1 if there is none."""
        ...


class CheckpointListener(Protocol):
    """Hears what became of a pipeline's checkpoints; see `Pipeline.listen`. Inherit from it to leave methods out.

    Called in whichever process takes the step (in Airflow, mostly the `notify` task), so be quick. Notices may repeat,
    and may come from another process than the last one: go by the ids. What a listener raises is logged, and that is all:
    the checkpoint stands as it is.
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint completed and every sink has committed it. At least once: a crash right after is told again."""

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        """The checkpoint failed, whatever the cause; what it staged is garbage. Best effort: a crash right after the
        failure is not made up for. `latest_completed` has been told as complete before."""

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Newer checkpoints have pushed out this one and those before it. Best effort, after the complete of a newer one."""


class Validator(Protocol):
    def validate(self, checkpoint: CheckpointRecord, subtasks: Mapping[SubtaskId, SubtaskRecord]) -> Sequence[Verdict]:
        """Judge every target that has a suite. An error while judging is a verdict with `success` None, not raised."""
        ...
