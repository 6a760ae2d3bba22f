"""What a sink must do: stage rows where no reader looks, and show them once their checkpoint has completed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


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
