"""What a source must do. It reads by reference: a segment names data, and never holds the rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.ports.storage import CheckpointStorage
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.records import Snapshot
from tidegate.protocol.schema.ddl import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Segment:
    """A bounded, replayable piece of data in a channel: a reference, never the rows.

    `reference` is JSON that only the source understands: a list of files, an offset range. `event_time` is the largest
    one that its split has read with it, if an operator needs that. If rows are `ahead`, so many have a later event
    time: they are malformed. The source sets neither.
    """

    split: int
    reference: Mapping[str, Any]
    bytes: int
    event_time: int | None = None
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source split needs to record its position: where, under which name, and as part of which checkpoint.

    `beside` are the snapshots that the source's other splits had when this checkpoint began: what they have read need
    not be looked at. A poll should not take many more than `max_bytes`, where it can choose: the rest is polled soon.
    `now` is the time of the poll, for a source that leaves alone what is too young.
    """

    storage: CheckpointStorage
    checkpoint_id: int
    prefix: str  # path prefix, unique to this subtask and attempt, below which it may write
    beside: Sequence[Snapshot] = ()
    max_bytes: int | None = None
    now: datetime | None = None


class Source(Protocol):
    """A replayable input. It keeps nothing in memory between calls: its position is in the snapshots.

    It may also be an `ArrowSource`, a `BacklogSource`, a `LaggingSource` and a `QuarantiningSource`.
    """

    @property
    def schema(self) -> Schema:
        """The columns of the rows."""
        ...

    def num_splits(self) -> int: ...
    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        """What has arrived since `restored`, within the source's limit, and the snapshot that records it as read:
        `finished` if nothing will ever follow from this split. Then it is not polled again.

        Raises `SourceChangedError` if data that was read before has changed.
        """
        ...

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        """The segment between two snapshots, the same that `poll` gave when it made `taken`."""
        ...

    def read(self, spark: "SparkSession", segments: Sequence[Segment], output: str = "rows") -> "DataFrame":
        """A lazy DataFrame over the segments, in the source's schema; `output` may be `malformed` if such rows are
        kept. `spark` may be asked for the first time: `SparkSession.getActiveSession()` knows it only then.

        Its rows must not depend on the id of the Spark partition they are read in: a small batch is read in one.
        """
        ...

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        """What to raise instead of an error of Spark, if it comes from reading these segments: Spark reads late, in the
        middle of another job."""
        ...

    def describe(self) -> dict[str, Any]:
        """JSON for the checkpoint's metadata: class and options, no secrets. Its `type` and `path`, if it has one,
        identify it: see `protocol.recovery.identity`."""
        ...
