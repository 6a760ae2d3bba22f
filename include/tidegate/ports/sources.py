"""What a source must do. It reads by reference: a segment names data, and never holds the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.ports.declared_schemas import Schema
from tidegate.ports.storage import CheckpointStorage
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.records import Snapshot, StateHandle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Segment:
    """A bounded, replayable piece of data in a channel: a reference, never the rows.

    Attributes:
        split: The split of the source.
        reference: JSON that only the source understands, such as a list of files or a range of offsets.
        bytes: Its size.
        event_time: The largest event time in it, if an operator needs that. Not set by the source.
        ahead: The number of rows with a later event time, which are malformed. Not set by the source.
        files: Files on checkpoint storage that the reference names. They stay until the segment has been read.
    """

    split: int
    reference: Mapping[str, Any]
    bytes: int
    event_time: int | None = None
    ahead: int = 0
    files: Sequence[StateHandle] = ()


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source split needs to poll, and to record its position.

    Attributes:
        storage: The checkpoint storage, for what is too large for the position.
        checkpoint_id: The checkpoint that the poll is a part of.
        prefix: The path below which the split may write. It is unique to this subtask and attempt.
        other_splits: The snapshots that the source's other splits had when this checkpoint began. What they have read
            need not be looked at. If there were more splits before, those of the ones that are gone are among them.
        max_bytes: A poll should not take many more than these, if it can choose. The rest is polled soon.
        now: The time of the poll, for a source that leaves alone what is too young.
    """

    storage: CheckpointStorage
    checkpoint_id: int
    prefix: str
    other_splits: Sequence[Snapshot] = ()
    max_bytes: int | None = None
    now: datetime | None = None


class Source(Protocol):
    """A replayable input, by structure: a class with these methods need not inherit from it.

    It keeps nothing in memory between calls, as its position is in the snapshots. It may also be a `BacklogSource`, a
    `LaggingSource`, an `ArrowSource`, a `QuarantiningSource`, and whatever else the abilities below are.
    """

    @property
    def schema(self) -> Schema:
        """The columns of the rows: Spark DDL, a `StructType` or a pydantic model."""
        ...

    def num_splits(self) -> int:
        """Count the splits, each of which has its own position.

        Returns:
            The number of splits.
        """
        ...

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        """Take what has arrived since a snapshot, within the source's limit.

        Args:
            split: The split.
            restored: The snapshot that it goes on from; None at the start.
            context: Where and as part of which checkpoint it polls.

        Returns:
            The segment, None if nothing has arrived, and the snapshot that records it as read. The snapshot is
            `finished` if nothing will ever follow from this split. Then it is not polled again.

        Raises:
            SourceChangedError: If data that was read before has changed.
        """
        ...

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        """Make a segment again.

        Args:
            split: The split.
            restored: The snapshot that `poll` went on from.
            taken: The snapshot that `poll` returned.
            storage: The checkpoint storage.

        Returns:
            The segment that `poll` returned.
        """
        ...

    def read(self, spark: "SparkSession", segments: Sequence[Segment], output: str = "rows") -> "DataFrame":
        """Read segments, lazily.

        The rows must not depend on the id of the Spark partition that they are read in: a small batch is read in one.

        Args:
            spark: The session. `SparkSession.getActiveSession()` knows it only after its first use.
            segments: What to read.
            output: `rows`, or `malformed` for a source that keeps such rows.

        Returns:
            A DataFrame with the columns of `schema`.
        """
        ...

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        """Say what an error of Spark means, which reads late, in the middle of another job.

        Args:
            error: What Spark raised.
            segments: What was read.

        Returns:
            What to raise instead; None if the error does not come from reading these segments.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Describe the source for the checkpoint's metadata.

        Returns:
            JSON: its class as `type`, and its options, without secrets. `type` and `path`, if there is one, identify
            the source: a definition whose source has others is refused.
        """
        ...
