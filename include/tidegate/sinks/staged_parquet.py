"""`StagedParquet`: the steps of a sink before its commit, with Parquet files.

It decides which rows are staged and where. The commit of the staged rows is left to the sink.
"""

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tidegate.ports import CheckpointStorage, CommitAttempt, SinkCommit, SinkInput, StageContext
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError, SinkError
from tidegate.protocol.facts.paths import sink_directory
from tidegate.protocol.facts.records import StateHandle
from tidegate.settings import Settings, absolute, spark_path
from tidegate.settings.spark_schemes import reaches
from tidegate.sinks import staging
from tidegate.sinks.encoding import ambiguous, without_type, write
from tidegate.sinks.staged_files import StagedFiles, StagedPlan, batches_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: Bytes of staged files below which exchanging counts between Spark tasks takes longer than reading them in one.
_SMALL = 2 << 20
#: Bytes and rows of staged files up to which they may be read in one process, without Spark. A few bytes can be many
#: rows.
_READ_HERE, _ROWS_HERE = 32 << 20, 2_000_000


class StagedParquet:
    """The base of a sink: a subclass has `commit` and `describe`, and reads staged rows with `batches`.

    Rows are staged as Parquet files where no reader looks, below the project's checkpoint storage in a directory of
    the pipeline's sink, or in a directory of its own. They are validated there, and deleted when no checkpoint needs
    them.

    A subclass may be a dataclass. It is copied when it joins a pipeline, so its connections are opened by `commit`. It
    may have any other ability of `tidegate.ports`. Its attributes may also be properties, where they depend on options.

    Attributes:
        input: The rows that the sink receives, a `tidegate.ports.SinkInput`; by default those that the checkpoint
            produced.
        commits: When the sink shows rows, and how often, a `tidegate.ports.SinkCommit`; by default after the
            checkpoint, and no row again if repeated.
        staged_in: A directory or URL of its own to stage in. None: below the checkpoint storage.

    Example:
        ```python
        from tidegate import StagedParquet
        from tidegate.ports import SinkCommit


        class PrintSink(StagedParquet):
            commits = SinkCommit.AT_LEAST_ONCE

            def commit(self, checkpoint_id, staged, attempt):
                for batch in self.batches(staged):
                    print(checkpoint_id, batch.to_pylist())

            def describe(self):
                return {"type": "PrintSink"}
        ```
    """

    # Typed as `Any`: with any other type, mypy and pyright reject either an attribute or a property of a subclass. The
    # core reads them by the types of `ports.Sink`.
    input: Any = SinkInput.CHANGES
    commits: Any = SinkCommit.AFTER_THE_COMMIT
    staged_in: Any = None

    _place: str | None = None
    #: The folder of the root that holds the directories of checkpoints.
    _folder = staging.STAGING

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Make the staged rows visible, all at once. See `tidegate.ports.Sink.commit`, which has the rules.

        Args:
            checkpoint_id: The completed checkpoint.
            staged: The files that it staged.
            attempt: The attempt at committing.

        Raises:
            SupersededAttemptError: If a step fails because a later attempt was here.
        """
        raise NotImplementedError(f"{type(self).__name__}.commit is missing: it makes staged rows visible.")

    def describe(self) -> dict[str, Any]:
        """Describe the sink for the checkpoint's metadata.

        Returns:
            JSON: its class as `type`, and its options, without secrets.
        """
        raise NotImplementedError(f"{type(self).__name__}.describe is missing: it identifies the sink.")

    @property
    def place(self) -> str | None:
        """See `tidegate.ports.PlacedSink`."""
        return self._place if self.staged_in is None else None

    def placed(self, pipeline_id: str, name: str) -> Self:
        """See `tidegate.ports.PlacedSink`."""
        placed = copy.copy(self)
        object.__setattr__(placed, "_place", sink_directory(pipeline_id, name))  # it may be a frozen dataclass
        return placed

    @property
    def root(self) -> str:
        """The directory or URL that staged paths are relative to, absolute."""
        if self.staged_in is not None:
            return absolute(self.staged_in)
        if self._place is None:
            raise PipelineDefinitionError(
                f"{type(self).__name__} has no place to stage rows yet: it is given one when it joins a pipeline, by "
                "stream.sink(name, sink). To use it alone, let its `staged_in` be a directory."
            )
        return f"{Settings.from_environment().storage.rstrip('/')}/{self._place}"

    def batches(self, staged: Sequence[StateHandle]) -> Iterator["pa.RecordBatch"]:
        """Read staged rows in bounded memory, for `commit`.

        Args:
            staged: The files.

        Returns:
            Batches of rows, file after file.

        Raises:
            SinkError: If a file is missing or unreadable.
        """
        for handle in staged:
            batches = batches_of(self.root, self._confined(handle))
            while True:
                try:
                    batch = next(batches)
                except StopIteration:
                    break
                except (CheckpointError, OSError, ValueError) as error:
                    raise SinkError(
                        f"The staged file {self.root}/{handle.path} ({handle.rows} rows) of checkpoint "
                        f"{handle.created_by} cannot be read: {error} The checkpoint is complete. Restore that file "
                        "from a copy and repeat the notify step, or go back to the previous checkpoint."
                    ) from error
                yield batch

    def _confined(self, handle: StateHandle) -> str:
        return staging.confined(handle.path, self._folder)

    def columns_of(self, staged: Sequence[StateHandle]) -> "pa.Schema":
        """Read the columns of staged rows.

        Args:
            staged: The files, at least one.

        Returns:
            Their columns.

        Raises:
            SinkError: If the first file is missing or unreadable.
        """
        first = staged[0]
        try:
            return StagedFiles(self.root, [self._confined(first)]).schema
        except (CheckpointError, OSError, ValueError) as error:
            raise SinkError(
                f"The staged file {self.root}/{first.path} of checkpoint {first.created_by} cannot be read: {error} "
                "Nothing of it is visible. Run the checkpoint again."
            ) from error

    def writer(self) -> "StagedParquetWriter":
        """See `tidegate.ports.Sink`."""
        return StagedParquetWriter(self.root, stage_empty=self.input is not SinkInput.CHANGES)

    def read_staged(self, spark: "SparkSession", staged: Sequence[StateHandle]) -> "DataFrame | None":
        """See `tidegate.ports.Sink`. Raises `SinkError` if a staged file is missing or unreadable."""
        if not staged:
            return None
        # pyspark is heavy and this module is imported when Airflow parses a DAG.
        from pyspark.sql.pandas.types import from_arrow_schema

        paths = [self._confined(handle) for handle in staged]
        schema = from_arrow_schema(self.columns_of(staged), prefer_timestamp_ntz=True)
        if not reaches(spark, self.root):
            return spark.range(0, len(paths), 1, len(paths)).mapInArrow(StagedPlan(self.root, paths).run, schema)
        rows = spark.read.schema(schema).parquet(*(spark_path(f"{self.root}/{path}") for path in paths))
        return rows.coalesce(1) if sum(handle.bytes for handle in staged) <= _SMALL else rows

    def staged_rows(self, staged: Sequence[StateHandle]) -> StagedFiles | None:
        """See `tidegate.ports.ArrowSink`. Beyond some size, Spark reads files faster, and with less memory in this
        process."""
        if sum(handle.bytes for handle in staged) > _READ_HERE or sum(handle.rows for handle in staged) > _ROWS_HERE:
            return None
        return StagedFiles(self.root, [self._confined(handle) for handle in staged])

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """See `tidegate.ports.TypedSink`: columns that Parquet cannot hold, or that readers cannot tell apart."""
        return [*without_type(columns), *ambiguous(columns.names)]

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        """See `tidegate.ports.Sink`."""
        for handle in staged:
            self._confined(handle)
        self.staging().verify(staged, in_full)

    def staging(self) -> CheckpointStorage:
        """See `tidegate.ports.PortableSink`."""
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        from tidegate.state.storage import open_storage

        return open_storage(self.root)

    def writer_at(self, url: str) -> "StagedParquetWriter":
        """See `tidegate.ports.PortableSink`."""
        return replace(self.writer(), root=url)

    def staged_checkpoints(self) -> list[int]:
        """See `tidegate.ports.StagingSink`."""
        return staging.staged_checkpoints(self.staging(), self._folder)

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        """See `tidegate.ports.Sink`."""
        return staging.staged_paths(self.staging(), checkpoint_id, self._folder)

    def discard(self, paths: Sequence[str]) -> None:
        """See `tidegate.ports.Sink`."""
        staging.discard(self.staging(), paths, self._folder)


@dataclass(frozen=True)
class StagedParquetWriter:
    """Stages rows from an executor. With `stage_empty`, it also writes a file without rows, so that a table keeps its
    columns."""

    root: str
    stage_empty: bool

    def stage(self, rows: "pa.Table", context: StageContext) -> list[StateHandle]:
        """See `ports.SinkWriter`. Raise `StorageError` (disk full, permission), `SinkError` (a type that Parquet
        lacks)."""
        if rows.num_rows == 0 and not self.stage_empty:
            return []
        # pyarrow is heavy and this module is imported when Airflow parses a DAG.
        import pyarrow as pa

        try:
            if problems := without_type(rows.schema):
                raise pa.ArrowInvalid("; ".join(problems))
            return [staging.stage(self.root, partial(write, rows), rows.num_rows, context)]
        except pa.ArrowInvalid as error:
            raise SinkError(
                f"Rows of checkpoint {context.checkpoint_id} cannot be stored as Parquet below {self.root}: {error}. "
                "Nothing became visible. Change the column's type in the pipeline, then run again."
            ) from error
