"""The ports for executing a pipeline, checkpoint by checkpoint or continuously, for validating its data, and for
listening to its checkpoints."""

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
        """Take the snapshots. Acknowledge source splits first, in one call, then operators as they finish."""
        ...

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        """Merge the runs of subtasks that have too many; an empty list if no merge is worth it."""
        ...

    def frame(
        self, target: Target, subtasks: Mapping[SubtaskId, SubtaskRecord], record: CheckpointRecord
    ) -> "DataFrame | None":
        """Return the data of a verdict's `target`: staged rows, state, or a check's own query over them. None if there
        are none."""
        ...


class Exporter(Protocol):
    """Writes the files of a savepoint's directory: on Spark in production, so that they do not pass through one
    process."""

    def export(
        self, record: CheckpointRecord, location: str, rewrites: Sequence[Rewrite], copies: Sequence[FileCopy]
    ) -> Mapping[SubtaskId, StateHandle]:
        """Write the directory, with paths below `location`. A repetition uses the same names. Returns the merged runs.
        Raises `CheckpointError`s."""
        ...


class Editor(Protocol):
    """Writes the files of an edited savepoint's directory: on Spark in production."""

    def checked(self, operator_id: str, rows: "DataFrame", removed: bool) -> "DataFrame":
        """Return the user's rows in the form that `rewrite` takes: with the columns of the operator's state, or with
        those of its key if the rows name `removed` keys. Raises `SavepointEditError`, `PipelineDefinitionError` for
        columns or types that do not fit."""
        ...

    def rewrite(
        self,
        record: CheckpointRecord,
        location: str,
        rewrites: Sequence[Rewrite],
        copies: Sequence[FileCopy],
        changes: "Mapping[str, DataFrame]",
    ) -> Mapping[SubtaskId, StateHandle]:
        """Write the edited state, with paths below `location`. `changes` are by operator. Every subtask of such an
        operator has a rewrite, perhaps without runs. Returns the runs of the subtasks that have state afterwards.
        Raises `CheckpointError`s."""
        ...

    def restage(
        self, record: CheckpointRecord, location: str, subtasks: Mapping[SubtaskId, SubtaskRecord]
    ) -> Mapping[SubtaskId, Sequence[StateHandle]]:
        """Stage all rows of the written state for the sinks of current rows, with paths below `location`."""
        ...


@dataclass(frozen=True, slots=True)
class Declined:
    """A checkpoint that a part of a continuous region aborted, or whose snapshot it could not write."""

    checkpoint_id: int
    reason: FailureReason
    message: str


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one round of a continuous region.

    Attributes:
        acknowledgements: The acknowledgements, by checkpoint.
        declined: The checkpoints that were declined.
        idle: Whether nothing had arrived and nothing was left to do.
        behind: Whether more has arrived than was taken in.
        ended: Whether every source has been read to its end, and no checkpoint records yet that all has finished.
        lag: The input that the last polls have left, of sources that can report it.
        writing: Whether a snapshot is being written in the background.
    """

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
        """Take in arrived input, within limits, and process it. Without `polls`, process only earlier input."""
        ...

    def begin(self, task: SnapshotTask) -> None:
        """Put the barrier of a checkpoint at the sources' positions. Ids grow, and earlier checkpoints may still be in
        progress."""
        ...

    def completed(self, checkpoint_id: int) -> None:
        """Take note that a checkpoint has completed and its sinks have committed. Ids grow: no older one completes any
        more."""
        ...

    def aborted(self, checkpoint_id: int, latest_completed: int) -> None:
        """Take note that a checkpoint was aborted, or subsumed by a newer one. `latest_completed` is -1 if there is
        none."""
        ...


class CheckpointListener(Protocol):
    """A listener for the outcomes of a pipeline's checkpoints (see `Pipeline.listen`). Inherit from it to leave methods
    out.

    It is called in the process that takes the step (in Airflow, mostly the `notify` task), so be quick. Notifications
    may repeat, and may come from another process than the last one, so rely on the ids. An error that a listener raises
    is only logged. It does not affect the checkpoint.

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
        """React to a checkpoint that has completed and that every sink has committed. Called at least once: the call is
        repeated after a crash.

        Args:
            checkpoint_id: The checkpoint.
        """
        return None

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        """React to a checkpoint that has failed. Its staged files are garbage. Best effort: the call is not repeated
        after a crash.

        Args:
            checkpoint_id: The checkpoint.
            latest_completed: The latest completed one, whose completion was notified before; None if there is none.
        """
        return None

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        """React to newer checkpoints that have replaced this one and those before it. Best effort, after the completion
        of a newer one.

        Args:
            checkpoint_id: The checkpoint.
        """
        return None


class Validator(Protocol):
    """Validates staged rows and state: with Great Expectations in production."""

    def validate(
        self,
        checkpoint: CheckpointRecord,
        subtasks: Mapping[SubtaskId, SubtaskRecord],
        settled: Sequence[Verdict] = (),
    ) -> Sequence[Verdict]:
        """Validate every target that has a suite, except those with a `settled` verdict, which reports show too. An
        error during validation becomes a verdict with `success` None, and is not raised."""
        ...
