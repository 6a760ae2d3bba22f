"""`IcebergSource`: the files that are appended to an Iceberg table."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tidegate.iceberg.names import CATALOG, TableName, table_name
from tidegate.iceberg.places import location_now
from tidegate.ports import ReadableStorage, ReadSince, Segment, Snapshot
from tidegate.ports.declared_schemas import Schema, ddl_of
from tidegate.protocol.facts.errors import (
    MalformedRowsError,
    PipelineDefinitionError,
    SinkError,
    SourceChangedError,
    SourceUnavailableError,
)
from tidegate.protocol.facts.records import Pending
from tidegate.protocol.schema.ddl import columns_of
from tidegate.sources.range_source import Position, RangeSource, RangesReader
from tidegate.sources.read_errors import AS_BEFORE

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile

    from tidegate.iceberg.source_ranges import History


class IcebergSource(RangeSource):
    """An Iceberg table to which rows are appended. Each checkpoint reads the files of the snapshots since the one
    before; the first reads the whole table. Spark's tasks read files in parallel.

    A snapshot that only rewrites files, such as a compaction, adds no rows and is passed over. Columns are found by
    their numbers, so a column that is renamed later is still read under its name in the schema.

    Args:
        table: `namespace.name`.
        catalog: The name of a catalog in pyiceberg's configuration. By default the one in the database of the
            checkpoints, where `IcebergSink` keeps its tables.
        start: The first rows to read: with `"earliest"` the whole table, else rows appended after a snapshot (its id),
            a tag (its name) or a time.
        on_overwrite: The treatment of a snapshot that removes or replaces rows: `"fail"` fails the checkpoint, `"skip"`
            passes over the snapshot, with the rows that it adds.
        schema: The columns: Spark DDL, a pyspark `StructType` or a pydantic model. By default all columns that the
            table has, read from the catalog when the pipeline is checked, planned or run.
        max_rows: The rows that one checkpoint reads at most. A data file is read whole.
        max_bytes: The bytes of files that one checkpoint reads at most.

    Raises:
        PipelineDefinitionError: If an option is wrong.

    Example:
        ```python
        from tidegate import IcebergSink, IcebergSource, Pipeline, sum_

        bronze = IcebergSource("bronze.orders", schema="customer STRING, cents BIGINT")
        orders = Pipeline("silver").source("orders", bronze)
        totals = orders.key_by("customer").aggregate("totals", cents=sum_("cents"))
        totals.sink("totals", IcebergSink("silver.totals", mode="latest"))
        ```
    """

    def __init__(
        self,
        table: str,
        catalog: str | None = None,
        start: str | int | datetime = "earliest",
        on_overwrite: Literal["fail", "skip"] = "fail",
        *,
        schema: Schema | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self.table, self.catalog, self.start, self.on_overwrite = table, catalog, start, on_overwrite
        self.max_rows, self.max_bytes = max_rows, max_bytes
        self._declared = None if schema is None else ddl_of(schema)
        self._ddl: str | None = None
        self._pending: dict[int, Pending] = {}
        self._check()

    def _check(self) -> None:
        table_name(self.table, self.catalog, "IcebergSource")
        if self.on_overwrite not in ("fail", "skip"):
            self._refuse(f'on_overwrite is {self.on_overwrite!r}, but must be "fail" or "skip"')
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            self._refuse("start is a time without a zone, such as datetime(2026, 11, 28, tzinfo=UTC)")
        for name, limit in (("max_rows", self.max_rows), ("max_bytes", self.max_bytes)):
            if limit is not None and limit < 1:
                self._refuse(f"{name} is {limit}, but must be at least 1")

    def _refuse(self, why: str) -> NoReturn:
        raise PipelineDefinitionError(f"IcebergSource({self.table!r}): {why}.")

    @property
    def name(self) -> TableName:
        return table_name(self.table, self.catalog, "IcebergSource")

    @property
    def declared_schema(self) -> str | None:
        """See `ports.DiscoveringSource`."""
        return self._declared

    @property
    def schema(self) -> Schema:  # type: ignore[override]
        """The columns, as declared or as the table has them when this is first read."""
        if self._ddl is None:
            self._ddl = self._columns_of_table() if self._declared is None else self._declared
        return self._ddl

    def _columns_of_table(self) -> str:
        from tidegate.iceberg.spark_columns import ddl_of_table

        history = self._history()
        if history is None:
            self._refuse("there is no such table yet, so it needs a schema=, or the pipeline that makes it runs first")
        return ddl_of_table(self.name, history.metadata.schema())

    def describe(self) -> dict[str, Any]:
        """See `ports.Source`."""
        start = self.start.isoformat() if isinstance(self.start, datetime) else self.start
        description = {
            "type": "IcebergSource",
            "path": f"iceberg://{self.catalog or CATALOG}/{self.name}",
            "start": start,
            "on_overwrite": self.on_overwrite,
        }
        return description if self._declared is None else {**description, "schema": self._declared}

    # -- ranges of snapshots

    def latest(self, split: int, position: Position) -> Position:
        """See `RangeSource`. Raise `SourceChangedError`, `SourceUnavailableError`."""
        return self.latest_within(split, position, None)

    def latest_within(self, split: int, position: Position, max_bytes: int | None) -> Position:
        """See `RangeSource`."""
        from tidegate.iceberg.source_ranges import Limits

        history = self._history()
        if history is None:
            if position is not None:
                raise self._gone()
            self._pending[split] = Pending(0, "files", 0)
            return None
        sizes = [size for size in (self.max_bytes, max_bytes) if size is not None]
        polled = history.poll(position, self.start, Limits(self.max_rows, min(sizes, default=None)))
        self._pending[split] = Pending(len(polled.left), "files", sum(file.file_size_in_bytes for file in polled.left))
        return polled.end

    def size(self, split: int, start: Position, end: Position) -> int:
        """See `RangeSource`."""
        return sum(file.file_size_in_bytes for file in self._files(start, end))

    def pending(self, split: int) -> Pending | None:
        """See `ports.LaggingSource`."""
        return self._pending.get(split)

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """See `ports.BacklogSource`."""
        return split in self._pending and self._pending[split].pieces > 0

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """See `ports.RereadingSource`."""
        start, end = (None if one is None or one.position is None else one.position["to"] for one in (restored, taken))
        if end in (None, start):
            return ReadSince(0, 0, ())
        history = self._history()
        try:
            files = [] if history is None else history.between(start, end)
        except (SourceChangedError, SourceUnavailableError):
            history = None
        if history is None:
            return ReadSince(1, 0, (f"{self.name} up to snapshot {end['snapshot']}",))
        return ReadSince(len(files), sum(file.file_size_in_bytes for file in files), ())

    def read_between(self, split: int, start: Position, end: Position) -> "Iterator[pa.RecordBatch]":
        """See `RangeSource`. Reads the catalog, so Spark's tasks use `arrow_reader` instead."""
        reader = self._reader(self._files(start, end))
        for ranged in reader.ranges:
            yield from reader.source.read_between(split, None, ranged["to"])

    def arrow_reader(self, segments: Sequence[Segment]) -> RangesReader:
        """See `ports.ArrowSource`. Every data file is a range."""
        ranges = [(segment.reference["from"], segment.reference["to"]) for segment in segments]
        return self._reader([file for start, end in ranges for file in self._files(start, end)])

    def _reader(self, files: "Sequence[DataFile]") -> RangesReader:
        from tidegate.iceberg.source_rows import IcebergFiles

        history = self._history()
        if history is None:
            raise self._gone()
        names = [name for name, _ in columns_of(ddl_of(self.schema))]
        found = IcebergFiles.of(history.metadata, names, self.describe(), files)
        missing = [name for name in names if name not in found.columns.column_names]
        if files and missing:
            raise MalformedRowsError(
                f"Table {self.name} has no column {missing[0]!r}. {AS_BEFORE}Take it out of the schema= of its source, "
                "or add it to the table."
            )
        return RangesReader(found, tuple({"split": 0, "from": None, "to": file.file_path} for file in files))

    def _files(self, start: Position, end: Position) -> "list[DataFile]":
        history = self._history()
        if history is None:
            raise self._gone()
        return history.between(start, end)

    def _history(self) -> "History | None":
        from tidegate.iceberg.source_ranges import History, metadata_at

        try:
            location = location_now(self.name)
        except SinkError as error:
            raise SourceUnavailableError(f"Table {self.name} cannot be read. {error}") from error
        return None if location is None else History(self.name, metadata_at(location), self.on_overwrite == "skip")

    def _gone(self) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"Table {self.name}, of which rows were read, does not exist any more. {AS_BEFORE}Bring it back, then "
            "repeat the step."
        )
