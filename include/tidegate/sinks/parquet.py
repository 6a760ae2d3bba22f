"""`ParquetSink`: a directory of Parquet files that any reader can open. It changes only when a checkpoint is committed.

Decides what is staged and how staged rows are read back. `publish.py` decides how staged files become visible, and what
a crash in between leaves.
"""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from tidegate.ports import CheckpointStorage, CommitAttempt, DeliveryGuarantee, SinkInput, StageContext, Withdrawn
from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import PipelineDefinitionError, SinkError, StorageError
from tidegate.protocol.facts.paths import attempt_prefix
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.text.durations import duration
from tidegate.settings import absolute, spark_path
from tidegate.sinks import merged, outdated, ownership, publish, rewind
from tidegate.sinks.encoding import ambiguous, encoded, without_type
from tidegate.sinks.fencing import last_attempt
from tidegate.sinks.parquet_files import ParquetMerger
from tidegate.sinks.staged_files import StagedFiles
from tidegate.sinks.table_columns import columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


#: Bytes of staged files below which exchanging counts between Spark tasks takes longer than reading them in one.
_SMALL = 2 << 20
#: Bytes and rows of staged files up to which they may be read in one process, without Spark. A few bytes can be many
#: rows.
_READ_HERE, _ROWS_HERE = 32 << 20, 2_000_000
_MODES = {"append": SinkInput.CHANGES, "latest": SinkInput.CURRENT}


@dataclass(frozen=True)
class ParquetSink:
    """A directory of Parquet files that any reader can open. It changes only when a checkpoint is committed.

    With `mode="append"`, each checkpoint adds `checkpoint=<id>/`. Readers open `path`, and see `checkpoint` as a
    partition column. With `mode="latest"`, `path/current` has the current row of each key, and is replaced as a whole
    by each checkpoint. It is a link, which a reader resolves first: what it leads to, or `table()`, is a directory that
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
                f"ParquetSink({self.path!r}) cannot write to {scheme}://. A checkpoint becomes visible by the atomic "
                "rename of a directory or link: object stores copy file by file instead, so readers would see half a "
                "checkpoint, and other filesystems are not supported. Use a local or mounted directory, or a table "
                "format with its own commit."
            )

    @property
    def guarantee(self) -> DeliveryGuarantee:
        return DeliveryGuarantee.EXACTLY_ONCE  # a checkpoint's rows appear by one rename, under its id

    @property
    def input(self) -> SinkInput:
        return _MODES[self.mode]

    @property
    def root(self) -> str:
        """The directory, absolute."""
        return absolute(self.path)

    def table(self) -> str:
        """Find what is committed now. Resolve it once for each read.

        Returns:
            The directory of the table.
        """
        if self.mode == "latest":
            return os.path.realpath(os.path.join(self.root, publish.CURRENT))
        link = os.path.join(self.root, merged.MERGED, publish.CURRENT)
        return os.path.realpath(link) if self.merge and os.path.lexists(link) else self.root

    def describe(self) -> dict[str, Any]:
        """See `ports.Sink`. `readable_for` is no part of it: it changes nothing of the rows."""
        return {"type": "ParquetSink", "path": self.root, "mode": self.mode}

    def writer(self) -> "ParquetSinkWriter":
        return ParquetSinkWriter(self.root, stage_empty=self.mode == "latest")

    def read_staged(self, spark: "SparkSession", staged: Sequence[StateHandle]) -> "DataFrame | None":
        """See `ports.Sink`. Raises `SinkError` if a staged file is missing or unreadable."""
        if not staged:
            return None
        # pyarrow and pyspark are heavy and this module is imported when Airflow parses a DAG.
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import from_arrow_schema

        paths = [os.path.join(self.root, publish.staged_path(handle)) for handle in staged]
        try:
            schema = from_arrow_schema(pq.read_schema(paths[0]), prefer_timestamp_ntz=True)
        except (OSError, ValueError) as error:
            raise SinkError(
                f"The staged file {paths[0]} of checkpoint {staged[0].created_by} cannot be read: {error}. Nothing of "
                "it is visible. Run the checkpoint again."
            ) from error
        rows = spark.read.schema(schema).parquet(*(spark_path(path) for path in paths))
        return rows.coalesce(1) if sum(handle.bytes for handle in staged) <= _SMALL else rows

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """See `ports.TypedSink`."""
        return [*without_type(columns), *ambiguous(columns.names, ["checkpoint"] if self.mode == "append" else [])]

    def staged_rows(self, staged: Sequence[StateHandle]) -> StagedFiles | None:
        """See `ports.ArrowSink`. Beyond some size, Spark reads files faster, and with less memory in this process."""
        if sum(handle.bytes for handle in staged) > _READ_HERE or sum(handle.rows for handle in staged) > _ROWS_HERE:
            return None
        return StagedFiles([os.path.join(self.root, publish.staged_path(handle)) for handle in staged])

    def read_table(self, spark: "SparkSession") -> "DataFrame | None":
        """See `ports.ReadableSink`."""
        if self.mode == "latest":
            return spark.read.parquet(spark_path(self.table())) if os.path.exists(self.table()) else None
        columns = columns_of([os.path.join(self.root, f"checkpoint={id_}") for id_ in rewind.shown(self.root)])
        if columns is None:
            return None
        # pyspark is heavy and this module is imported when Airflow parses a DAG.
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(columns, prefer_timestamp_ntz=True)
        return spark.read.schema(schema).parquet(spark_path(self.root)).drop("checkpoint")

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """See `ports.Sink`. Durable when it returns. Raises `SinkError`, `SupersededAttemptError`."""
        if self.mode == "append":
            publish.append(self.root, checkpoint_id, staged, attempt, self._view())
        else:
            publish.replace(self.root, checkpoint_id, staged, attempt, duration(self.readable_for))

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        from tidegate.state.storage import open_storage

        for handle in staged:
            publish.staged_path(handle)
        open_storage(self.root).verify(staged, in_full)

    def staging(self) -> CheckpointStorage:
        """See `ports.PortableSink`."""
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        from tidegate.state.storage import open_storage

        return open_storage(self.root)

    def writer_at(self, url: str) -> "ParquetSinkWriter":
        """See `ports.PortableSink`."""
        return replace(self.writer(), root=url)

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

    def shown_beside(self, branch: Branch) -> list[Withdrawn]:
        return (rewind.shown_beside if self.mode == "append" else rewind.replaced)(self.root, branch)

    def withdrawn(self) -> list[int]:
        return rewind.withdrawn(self.root)

    def delete_withdrawn(self, checkpoint_ids: Collection[int], attempt: CommitAttempt) -> None:
        rewind.delete_withdrawn(self.root, checkpoint_ids, attempt)

    def numbers(self) -> tuple[int, int]:
        """See `ports.NumberedSink`."""
        ids = [*publish.numbers(self.root), *rewind.shown(self.root), *rewind.withdrawn(self.root)]
        return max(ids, default=0), last_attempt(self.root)

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
        """Where there are versions, relative to the root."""
        return [""] if self.mode == "latest" else [merged.MERGED] if self.merge else []

    def staged_checkpoints(self) -> list[int]:
        """See `ports.StagingSink`."""
        return publish.staged_checkpoints(self.root)

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        return publish.staged_paths(self.root, checkpoint_id)

    def discard(self, paths: Sequence[str]) -> None:
        publish.discard(self.root, paths)


@dataclass(frozen=True)
class ParquetSinkWriter:
    """Stages rows from an executor. With `stage_empty`, no rows also make a file, so that a table keeps its columns."""

    root: str
    stage_empty: bool

    def stage(self, rows: "pa.Table", context: StageContext) -> list[StateHandle]:
        """See `ports.SinkWriter`. Raises `StorageError` (disk full, permission), `SinkError` (a type Parquet lacks)."""
        if rows.num_rows == 0 and not self.stage_empty:
            return []
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow as pa

        from tidegate.state.storage import open_storage

        name = f"{attempt_prefix(context.subtask_index, context.attempt)}-{context.unique}.parquet"
        path = str(PurePosixPath(publish.staging_of(context.checkpoint_id), name))
        try:
            content = encoded(rows)
            storage = open_storage(self.root)
            storage.write(path, content)
        except StorageError as error:
            raise StorageError(
                f"Rows of checkpoint {context.checkpoint_id} could not be staged below {self.root}, so none of them "
                f"became visible; what readers see is unchanged. {error}"
            ) from error
        except pa.ArrowInvalid as error:
            raise SinkError(
                f"Rows of checkpoint {context.checkpoint_id} cannot be stored as Parquet below {self.root}: {error}. "
                "Nothing became visible. Change the column's type in the pipeline, then run again."
            ) from error
        checksum = sha256(content).hexdigest()
        handle = StateHandle(path, HandleKind.STAGED, rows.num_rows, len(content), checksum, context.checkpoint_id)
        storage.verify([handle], [path])  # what is reported from here on is what readers will see
        return [handle]
