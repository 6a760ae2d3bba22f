"""`ParquetSink`: a directory of Parquet files that any reader can open. It changes only when a checkpoint is committed.

`staged_parquet.py` decides how rows are staged and read back. `publish.py` decides how staged files become visible, and
which files a crash in between leaves.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from tidegate.ports import CommitAttempt, SinkCommit, SinkInput, TableFiles, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.text.durations import duration
from tidegate.protocol.text.masking import masked
from tidegate.settings import spark_path
from tidegate.sinks import merged, outdated, ownership, publish, reading_at, rewind
from tidegate.sinks.fencing import last_attempt
from tidegate.sinks.parquet_files import ParquetMerger
from tidegate.sinks.staged_parquet import StagedParquet
from tidegate.sinks.table_columns import columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


#: The column under which readers find the number in `checkpoint=<id>/`.
PARTITION_COLUMN = publish.PARTITION.rstrip("=")
_MODES = {"append": SinkInput.CHANGES, "latest": SinkInput.CURRENT}


@dataclass(frozen=True)
class ParquetSink(StagedParquet):
    """A directory of Parquet files that any reader can open. It changes only when a checkpoint is committed.

    With `mode="append"`, each checkpoint adds `checkpoint=<id>/`. Readers open `path`, and see `checkpoint` as a
    partition column. With `mode="latest"`, `path/current` has the current row of each key, and is replaced as a whole
    by each checkpoint. It is a link that a reader resolves first. The directory behind it, which `table()` returns,
    never changes.

    Args:
        path: A directory below the project's home, on a local or mounted filesystem.
        mode: `"append"` or `"latest"`.
        readable_for: How long a table stays readable after it was replaced.
        merge: Whether an appended table is also kept in few files, by the link `path/_merged/current`.

    Raises:
        PipelineDefinitionError: If an option is wrong, or `path` is on storage that cannot rename a directory
            atomically.

    Example:
        ```python
        from tidegate import FileSource, ParquetSink, Pipeline, expect, suite

        orders = Pipeline("shop").source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        no_nulls = suite("orders", expect("column_values_to_not_be_null", column="customer"))
        orders.sink("orders", ParquetSink("tables/orders", merge=True), expect=no_nulls)
        ```
    """

    path: str
    mode: Literal["append", "latest"] = "append"
    readable_for: str | timedelta = "5 min"
    merge: bool = False

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise PipelineDefinitionError(
                f'ParquetSink({self.path!r}): the mode is {self.mode!r}, but must be "append" or "latest".'
            )
        if self.merge and self.mode != "append":
            raise PipelineDefinitionError(
                f'ParquetSink({self.path!r}): merge=True is for mode="append". A table of current rows is replaced as '
                "a whole by each checkpoint, and has a file for each subtask."
            )
        try:
            duration(self.readable_for)
        except PipelineDefinitionError as error:
            raise PipelineDefinitionError(f"ParquetSink({self.path!r}): readable_for: {error}") from error
        scheme = self.path.partition("://")[0] if "://" in self.path else "file"
        if scheme != "file":
            raise PipelineDefinitionError(
                f"ParquetSink({masked(self.path)!r}) cannot write to {scheme}://. A checkpoint becomes visible by the "
                "atomic rename of a directory or link: object stores copy file by file instead, so readers would see "
                "half a checkpoint, and other filesystems are not supported. Use a local or mounted directory, or a "
                f'table whose files need no rename: IcebergSink("namespace.table", warehouse="{scheme}://…").'
            )

    @property
    def commits(self) -> SinkCommit:
        return SinkCommit.AFTER_THE_COMMIT  # a checkpoint's rows appear by one rename, under its id

    @property
    def input(self) -> SinkInput:
        return _MODES[self.mode]

    @property
    def staged_in(self) -> str:
        return self.path

    @property
    def directory(self) -> str:
        """See `ports.DirectorySink`."""
        return self.staged_in

    def table(self) -> str:
        """Return the directory of the table as committed now. Resolve it once for each read.

        Returns:
            The directory of the table.
        """
        if self.mode == "latest":
            return os.path.realpath(os.path.join(self.root, publish.CURRENT))
        link = os.path.join(self.root, merged.MERGED, publish.CURRENT)
        return os.path.realpath(link) if self.merge and os.path.lexists(link) else self.root

    def describe(self) -> dict[str, Any]:
        """See `ports.Sink`. `readable_for` is left out: it does not change the rows."""
        return {"type": "ParquetSink", "path": self.root, "mode": self.mode}

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """See `ports.TypedSink`."""
        taken = [name.lower() for name in columns.names if self.mode == "append" and name.lower() == PARTITION_COLUMN]
        return [
            *super().unstorable(columns),
            *(f"column {name!r} has the name of the partition column of checkpoint=<id>/: rename it" for name in taken),
        ]

    def read_table(self, spark: "SparkSession") -> "DataFrame | None":
        """See `ports.ReadableSink`."""
        if self.mode == "latest":
            return spark.read.parquet(spark_path(self.table())) if os.path.exists(self.table()) else None
        columns = columns_of([os.path.join(self.root, f"{publish.PARTITION}{id_}") for id_ in rewind.shown(self.root)])
        if columns is None:
            return None
        # pyspark is heavy and this module is imported when Airflow parses a DAG.
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(columns, prefer_timestamp_ntz=True)
        return spark.read.schema(schema).parquet(spark_path(self.root)).drop(PARTITION_COLUMN)

    def read_at(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle] | None) -> TableFiles:
        """See `ports.ReadableAtSink`. Raises `SinkError` as well, if the directory is not there."""
        if self.mode == "append":
            return reading_at.appended(self.root, checkpoint_id, branch, staged)
        return reading_at.current(self.root, checkpoint_id, staged)

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.Sink`. Durable when it returns. Raises `SinkError`, `SupersededAttemptError`."""
        if self.mode == "append":
            publish.append(self.root, checkpoint_id, staged, attempt, self._view())
            self.discard([handle.path for handle in staged])
        else:
            publish.replace(self.root, checkpoint_id, staged, attempt, duration(self.readable_for))

    def rewind(self, checkpoint_id: int, branch: Branch, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.RewindableSink`. Each partition, or the link `current`, changes in one step; several partitions
        change one after the other. Raises `SinkError`, `SupersededAttemptError`."""
        if self.mode == "append":
            rewind.append(self.root, checkpoint_id, branch, attempt, self._view())
        else:
            rewind.replace(self.root, checkpoint_id, staged, attempt)

    def _view(self) -> publish.View | None:
        if self.merge:
            return merged.MergedView(self.root, duration(self.readable_for), ParquetMerger())
        return merged.EndedView(self.root) if os.path.isdir(os.path.join(self.root, merged.MERGED)) else None

    def shown_outside(self, branch: Branch) -> list[Withdrawn]:
        return (rewind.shown_outside if self.mode == "append" else rewind.replaced)(self.root, branch)

    def withdrawn(self) -> list[int]:
        return rewind.withdrawn(self.root)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        rewind.delete_withdrawn(self.root, checkpoint_ids, attempt)

    def numbers(self) -> tuple[int, int]:
        """See `ports.NumberedSink`."""
        shown = [*publish.versions(self.root), *rewind.shown(self.root), *rewind.withdrawn(self.root)]
        return max([*self.staged_checkpoints(), *shown], default=0), last_attempt(self.root)

    def owner(self) -> Owner | None:
        """See `ports.OwnedSink`."""
        return ownership.read(self.root)

    def mark(self, owner: Owner) -> Owner:
        return ownership.mark(self.root, owner)

    def mark_anew(self, owner: Owner) -> None:
        ownership.replace(self.root, owner)

    def is_used(self) -> bool:
        return ownership.is_used(self.root)

    def outdated(self, now: datetime) -> list[str]:
        """See `ports.LingeringSink`."""
        return outdated.find(self.root, self._bases(), int(now.timestamp()) * 10**9, duration(self.readable_for))

    def remove_outdated(self, attempt: CommitAttempt) -> None:
        outdated.remove(self.root, self._bases(), duration(self.readable_for), attempt)

    def _bases(self) -> list[str]:
        """Return the directories that have versions, relative to the root."""
        return [""] if self.mode == "latest" else [merged.MERGED] if self.merge else []
