"""What executes a pipeline, checkpoint by checkpoint or continuously, what judges its data, and what listens to it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    AcknowledgeResult,
    CheckpointRecord,
    CompactedRun,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
    Verdict,
)
from tidegate.protocol.observing.lag import SourceLag
from tidegate.protocol.recovery.canonical import FileCopy, Rewrite
from tidegate.protocol.steps.snapshot import SnapshotTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Acknowledger = Callable[[Sequence[Acknowledgement]], Mapping[SubtaskId, AcknowledgeResult]]


class Region(Protocol):
    """Executes a pipeline's operators: on Spark in production, in process for the protocol's own tests."""

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledger) -> None:
        """Take the cut: acknowledge source splits first, in one call, then operators as they finish."""
        ...

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        """Merge runs where there are too many; an empty list if there is nothing worth merging."""
        ...

    def frame(
        self, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord], record: CheckpointRecord
    ) -> "DataFrame | None":
        """The data of a verdict's `target`: staged rows, state, or a check's own query over them. None if there are
        none."""
        ...


class Exporter(Protocol):
    """Writes the files of a savepoint's directory: on Spark in production, so that they do not pass through one
    process."""

    def export(
        self, record: CheckpointRecord, location: str, rewrites: Sequence[Rewrite], copies: Sequence[FileCopy]
    ) -> Mapping[SubtaskId, StateHandle]:
        """Write all of it, under the same names whenever it is repeated; paths are below `location`. Returns the merged
        runs. Raises `CheckpointError`s."""
        ...


class Editor(Protocol):
    """Writes the files of a savepoint's directory that is not what a checkpoint has found: on Spark in production."""

    def checked(self, operator_id: str, rows: "DataFrame", removed: bool) -> "DataFrame":
        """A DataFrame of rows that a user has given, in the form in which `rewrite` takes it: with the columns of the
        operator's state, or of its key if they name what is `removed`. Raises `SavepointEditError`,
        `PipelineDefinitionError` for columns or types that do not fit."""
        ...

    def rewrite(
        self,
        record: CheckpointRecord,
        location: str,
        rewrites: Sequence[Rewrite],
        copies: Sequence[FileCopy],
        changes: "Mapping[str, DataFrame]",
    ) -> Mapping[SubtaskId, StateHandle]:
        """Write all of it; paths are below `location`. `changes` are by operator, each of whose subtasks has a rewrite,
        perhaps without runs. Returns what subtasks have then, those without state missing. Raises `CheckpointError`s.
        """
        ...

    def restage(
        self, record: CheckpointRecord, location: str, subtasks: Mapping[SubtaskId, SubtaskRecord]
    ) -> Mapping[SubtaskId, Sequence[StateHandle]]:
        """Stage all rows of the state that was written for the sinks of current rows; paths are below `location`."""
        ...


@dataclass(frozen=True, slots=True)
class Declined:
    """A part of a continuous region aborted a checkpoint, or could not write its snapshot."""

    checkpoint_id: int
    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round of a continuous region. `acknowledgements` are by checkpoint. `idle`: nothing had arrived
    and nothing was left to do. `behind`: more has arrived than was taken in. `ended`: every source has been read to its
    end, and no checkpoint says yet that all has finished. `lag`: what the last polls have left, of sources that can
    say. `writing`: a snapshot is being written beside the rounds."""

    acknowledgements: Mapping[int, Sequence[Acknowledgement]]
    declined: Sequence[Declined]
    idle: bool
    behind: bool
    ended: bool
    lag: Sequence[SourceLag] = ()
    writing: bool = False


class ContinuousRegion(Protocol):
    """Executes a pipeline's operators continuously, and takes part in checkpoints in between, which may overlap.

    Any error that a method raises ends this attempt at running the pipeline. The next one goes on from the latest
    completed checkpoint.
    """

    def advance(self, polls: bool = True) -> Round:
        """Take in what has arrived, within limits, and process it. Without `polls`, only what was taken in before."""
        ...

    def begin(self, task: SnapshotTask) -> None:
        """Put the barrier of a checkpoint at the sources' positions. Ids grow; those before need not have ended."""
        ...

    def completed(self, checkpoint_id: int) -> None:
        """A checkpoint has completed, and its sinks have committed. Ids grow: no older one completes any more."""
        ...

    def aborted(self, checkpoint_id: int, latest_completed: int) -> None:
        """A checkpoint was aborted, or subsumed by a newer one; `latest_completed` is -1 if there is none."""
        ...


class CheckpointListener(Protocol):
    """Is notified of what became of a pipeline's checkpoints: see `Pipeline.listen`. Inherit from it to leave methods
    out.

    It is called in the process that takes the step (in Airflow, mostly the `notify` task), so be quick. Notifications
    may repeat, and may come from another process than the last one: go by the ids. What a listener raises is only
    logged: the checkpoint stands as it is.

    Example:
        ```python
        from tidegate import CheckpointListener, Pipeline


        class Announce(CheckpointListener):
            def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
                print(f"Checkpoint {checkpoint_id} is visible.")


        pipeline = Pipeline("shop")
        pipeline.listen(Announce())
        ```
    """

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint completed and every sink has committed it. At least once: it is repeated after a crash.

        Args:
            checkpoint_id: The checkpoint.
        """
        return None

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        """The checkpoint failed, whatever the cause, and what it staged is garbage. Best effort: it is not repeated
        after a crash.

        Args:
            checkpoint_id: The checkpoint.
            latest_completed: The latest completed one, whose completion was notified before; None if there is none.
        """
        return None

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """Newer checkpoints have pushed out this one and those before it. Best effort, after the completion of a newer
        one.

        Args:
            checkpoint_id: The checkpoint.
        """
        return None


class Validator(Protocol):
    def validate(
        self,
        checkpoint: CheckpointRecord,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
        settled: Sequence[Verdict] = (),
    ) -> Sequence[Verdict]:
        """Judge every target that has a suite, except those whose verdict is settled already; reports show these too.
        An error while judging is a verdict with `success` None, not raised."""
        ...
