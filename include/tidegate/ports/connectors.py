"""Sources and sinks: what they read and write by reference, and what they promise."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tidegate.ports.storage import CheckpointStorage, ReadableStorage
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.records import Pending, Snapshot, StateHandle
from tidegate.protocol.schema.ddl import Schema

if TYPE_CHECKING:
    import pyarrow as pa
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


@runtime_checkable
class BacklogSource(Protocol):
    """A source that can say when it is behind."""

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Whether more has arrived than the poll that gave this segment took."""
        ...


@runtime_checkable
class LaggingSource(Protocol):
    """A source that can say how far behind it is."""

    def pending(self, split: int) -> Pending | None:
        """What the last poll of this split has found and left; None before the first one. It is asked right after a
        poll, of the same object, so it costs no further look at the input."""
        ...


@dataclass(frozen=True, slots=True)
class ReadSince:
    """What a source has read between two snapshots, in files or whatever it reads in. `missing` names what is gone or
    has changed since, and so cannot be read again as it was."""

    pieces: int
    bytes: int
    missing: Sequence[str]


@runtime_checkable
class ListingSource(Protocol):
    """A source that can say which files a checkpoint has read."""

    def read_in(self, checkpoint_id: int, taken: Snapshot, storage: ReadableStorage) -> Mapping[str, int]:
        """Of one split: the files, relative to where the source is, with their bytes. Raises `StateIntegrityError`,
        `StorageError` if that is not known any more."""
        ...


@runtime_checkable
class RereadingSource(Protocol):
    """A source that can say what a restore makes it read again."""

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """What was read after `restored` and up to `taken`, as it is now."""
        ...


@dataclass(frozen=True, slots=True)
class PieceVersion:
    """What a file is, or was. `checksum` is None if its content is not remembered."""

    bytes: int
    modified_at: datetime
    checksum: str | None


@dataclass(frozen=True, slots=True)
class ReadPiece:
    """A file that a checkpoint has read: as it was then, and as it is now, None if it is gone."""

    name: str
    checkpoint_id: int
    then: PieceVersion
    now: PieceVersion | None
    is_same: bool


@runtime_checkable
class ReplaceableSource(Protocol):
    """A source of files, which can say what it has read of one."""

    def name_of(self, given: str) -> str:
        """How the source calls a file that somebody names: relative to where it reads."""
        ...

    def find_read(
        self, names: Sequence[str], taken: Sequence[Snapshot], storage: ReadableStorage
    ) -> Mapping[str, ReadPiece]:
        """Of these files, those that were read according to the snapshots of all splits."""
        ...


@runtime_checkable
class QuarantiningSource(Protocol):
    """A source that can keep malformed rows apart."""

    @property
    def quarantine(self) -> "Sink | None":
        """Where they go. None: they fail the checkpoint."""
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

    def stage(self, rows: "pa.Table", context: StageContext) -> list[StateHandle]:
        """Write a `pyarrow.Table` where no reader sees it; STAGED handles, paths relative to the sink's root.

        A path has a directory `chk-<checkpoint_id>`, and its file's name begins with `<subtask_index>-<attempt>-`: a
        report that names another one is refused (`protocol.cleaning.own_files`).
        """
        ...


class CommitAttempt(Protocol):
    """One attempt at committing a pipeline's sinks. A process that was stopped or hangs is overtaken by the next
    attempt. It may go on at any moment: then nothing it does may have an effect."""

    @property
    def number(self) -> int:
        """The attempt's number. It only grows: a higher one overtakes all lower ones, also those of
        processes that still run."""
        ...

    def confirm(self) -> None:
        """Raises `SupersededAttemptError` unless this attempt is the newest one now."""
        ...

    def keep(self) -> None:
        """Give a sign of life between the parts of long work; mostly this costs nothing. A commit without a sign for
        longer than `committing.COMMIT_LEASE` is overtaken. Raises `SupersededAttemptError`."""
        ...


class Sink(Protocol):
    """A transactional output: staged during the snapshot, made visible by `commit` after the checkpoint completed."""

    @property
    def input(self) -> SinkInput:
        """Which rows it is given."""
        ...

    @property
    def guarantee(self) -> DeliveryGuarantee:
        """The strongest one it can give: AT_LEAST_ONCE if a repeated `commit` may show rows again."""
        ...

    def writer(self) -> SinkWriter: ...
    def read_staged(self, spark: "SparkSession", staged: Sequence[StateHandle]) -> "DataFrame | None":
        """A DataFrame over staged (not yet visible) files. None if there are none: only the stream knows columns."""
        ...

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Make the staged rows visible, all at once. Idempotent: it will be repeated after crashes.

        Attempts fence: once one of a higher number was here, the steps of this one must change nothing, wherever it had
        stopped. So publish by a step that then fails by itself. One way is a transaction that compares `attempt.number`
        with the highest seen. Another is a rename out of a place of the attempt's own: make that place once, before
        `attempt.confirm()`, and let every attempt first remove the places of lower numbers. Raises
        `SupersededAttemptError` if such a step fails for this reason.
        """
        ...

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """As `CheckpointStorage.verify`, for staged files: the last look at them before the checkpoint completes."""
        ...

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        """Everything that any attempt of this checkpoint left in staging, acknowledged or not."""
        ...

    def discard(self, paths: Sequence[str]) -> None:
        """Delete staged files; never rows that readers see. Missing ones are fine."""
        ...

    def describe(self) -> dict[str, Any]:
        """As a source's."""
        ...


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The rows of one checkpoint that a rewind takes out of readers' sight."""

    checkpoint_id: int
    files: int
    bytes: int


@runtime_checkable
class ReadableSink(Protocol):
    """A sink that can read back what it shows."""

    def read_table(self, spark: "SparkSession") -> "DataFrame | None":
        """A lazy DataFrame of what readers see now, with the columns of the rows alone; None if nothing was ever
        committed."""
        ...


@runtime_checkable
class NumberedSink(Protocol):
    """A sink whose files carry the numbers of checkpoints and attempts, which a new database must not give out again
    when the old one is lost."""

    def numbers(self) -> tuple[int, int]:
        """The highest id of a checkpoint and the highest attempt at committing of which anything lies there; 0 for
        none."""
        ...


@runtime_checkable
class StagingSink(Protocol):
    """A sink that can say of which checkpoints anything lies in its staging, so that a file that was left there long
    ago is found."""

    def staged_checkpoints(self) -> list[int]: ...


@runtime_checkable
class PortableSink(Protocol):
    """A sink whose staged files can be taken along in a savepoint's directory, and staged again from there."""

    def staging(self) -> CheckpointStorage:
        """The storage whose root staged paths are relative to. Executors reach it by its URL."""
        ...

    def writer_at(self, url: str) -> SinkWriter:
        """What stages below another root: rows that are taken along before the sink has ever staged them."""
        ...


@runtime_checkable
class RewindableSink(Protocol):
    """A sink that can show again what it showed at an earlier checkpoint, for a pipeline that is restored."""

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Show exactly what the checkpoints of `branch` have committed: what others did is withdrawn but kept, and what
        of the branch was withdrawn before comes back. `staged` is what the restored checkpoint staged, which is kept
        with it. Idempotent and fenced as `commit`: readers see each checkpoint's rows whole or not at all.
        """
        ...

    def shown_beside(self, branch: Branch) -> list[Withdrawn]:
        """What a rewind to this branch would withdraw now."""
        ...

    def withdrawn(self) -> list[int]:
        """Checkpoints whose rows are withdrawn, and kept."""
        ...

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        """Delete the withdrawn rows of these checkpoints: no restore can bring them back any more."""
        ...
