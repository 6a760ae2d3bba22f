"""The port for sources. A source reads by reference: a segment names data, and never holds the rows."""

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
        event_time: The largest event time in it, if an operator needs that. The source does not set it.
        ahead: The number of rows with a later event time, which are malformed. The source does not set it.
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
    """The context in which a source split polls and records its position.

    Attributes:
        storage: The checkpoint storage, for data that is too large for the position.
        checkpoint_id: The checkpoint that the poll is a part of.
        prefix: The path below which the split may write. It is unique to this subtask and attempt.
        other_splits: The snapshots that the source's other splits had when this checkpoint began. Their input need not
            be searched. If there were more splits before, the snapshots of those that are gone are among them.
        max_bytes: A poll should not take many more bytes than these, if it can choose. The rest is polled soon.
        now: The time of the poll, for a source that leaves files alone that are too young.
    """

    storage: CheckpointStorage
    checkpoint_id: int
    prefix: str
    other_splits: Sequence[Snapshot] = ()
    max_bytes: int | None = None
    now: datetime | None = None


class Source(Protocol):
    """A replayable input, by structure: a class with these methods need not inherit from it.

    It keeps nothing in memory between calls, because its position is in the snapshots. It may also be a
    `BacklogSource`, a `LaggingSource`, an `ArrowSource`, a `QuarantiningSource`, or have any other ability of this
    page.
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
        """Take the input that has arrived since a snapshot, within the source's limit.

        Args:
            split: The split.
            restored: The snapshot that it goes on from; None at the start.
            context: The context of the poll.

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
            segments: The segments.
            output: `rows`, or `malformed` for a source that keeps such rows.

        Returns:
            A DataFrame with the columns of `schema`.
        """
        ...

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        """Explain an error of Spark, which reads lazily, in the middle of another job.

        Args:
            error: The error that Spark raised.
            segments: The segments that were read.

        Returns:
            The error to raise instead; None if the cause is not the reading of these segments.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Describe the source for the checkpoint's metadata.

        Returns:
            JSON: its class as `type`, and its options, without secrets. `type` and `path`, if there is one, identify
            the source. A definition whose source has a different `type` or `path` is refused.
        """
        ...
