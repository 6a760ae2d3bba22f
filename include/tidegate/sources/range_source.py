"""`RangeSource`: a source whose segments are ranges between two positions, read as Arrow.

It decides the content of a split's snapshot, and how the rows of a range reach Spark. The source defines what a
position is, and which rows are between two positions.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from tidegate.ports import CheckpointStorage, Segment, SourceContext
from tidegate.ports.declared_schemas import Schema, ddl_of
from tidegate.protocol.facts.errors import (
    CheckpointError,
    MalformedRowsError,
    PipelineDefinitionError,
    SourceUnavailableError,
)
from tidegate.protocol.facts.records import Snapshot
from tidegate.sources.parquet_frames import arrow_schema
from tidegate.sources.read_errors import AS_BEFORE, carried, carried_in

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: The position up to which a split has been read, as JSON: a number, a text, or an object of several. None: no rows.
Position: TypeAlias = Any


class RangeSource:
    """The base of a source of ordered rows, such as the rows of a table or the pages of an API.

    A subclass has a `schema`, and `latest`, `read_between` and `describe`. A checkpoint reads the rows between two
    positions, and stores both. So `read_between` must return the same rows again whenever it is called: after a crash,
    and after a restore. It runs in Spark tasks, so the source must not hold an object that cannot be pickled, such as a
    connection.

    Attributes:
        schema: The columns of the rows: Spark DDL, a `StructType` or a pydantic model.
        splits: The number of splits, each of which has its own position.

    Example:
        ```python
        import pyarrow as pa
        from tidegate import RangeSource


        class CountingSource(RangeSource):
            schema = "n BIGINT"

            def latest(self, split, position):
                return (position or 0) + 10

            def read_between(self, split, start, end):
                yield pa.RecordBatch.from_pydict({"n": range(start or 0, end)})

            def describe(self):
                return {"type": "CountingSource"}
        ```
    """

    schema: Schema
    splits: int = 1

    def latest(self, split: int, position: Position) -> Position:
        """Find the position up to which a split can be read now. It may be an earlier one, to limit a checkpoint.

        Args:
            split: The split.
            position: The position up to which it has been read; None at the start.

        Returns:
            The position after the last row that will not change; `position` itself if nothing has arrived.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.latest is missing: it finds the position up to which to read."
        )

    def latest_within(self, split: int, position: Position, max_bytes: int | None) -> Position:
        """Find the end of a poll that should not take many more than some bytes, as the rest is polled soon. By default
        `latest`.

        Args:
            split: The split.
            position: The position up to which it has been read; None at the start.
            max_bytes: The bytes; None without a limit.

        Returns:
            The position, as of `latest`.
        """
        return self.latest(split, position)

    def read_between(self, split: int, start: Position, end: Position) -> "Iterable[pa.RecordBatch]":
        """Read the rows after one position up to another, in a Spark task.

        Args:
            split: The split.
            start: The end of the previous range; None at the start.
            end: The position that `latest` returned.

        Returns:
            Batches with the columns of `schema`, in any order. Values are cast to their types. Other columns are left
            out.
        """
        raise NotImplementedError(f"{type(self).__name__}.read_between is missing: it reads rows.")

    def describe(self) -> dict[str, Any]:
        """Describe the source for the checkpoint's metadata. See `tidegate.ports.Source.describe`.

        Returns:
            JSON: its class as `type`, and its options, without secrets.
        """
        raise NotImplementedError(f"{type(self).__name__}.describe is missing: it identifies the source.")

    def size(self, split: int, start: Position, end: Position) -> int:
        """Estimate the bytes of a range. If they are known, a small range is read several times instead of sending its
        rows between Spark tasks.

        Args:
            split: The split.
            start: The position before its first row.
            end: The position after its last row.

        Returns:
            The bytes; 0 if they are unknown.
        """
        return 0

    def has_ended(self, split: int, position: Position) -> bool:
        """Check whether no rows will ever follow a position.

        Args:
            split: The split.
            position: The position up to which it has been read.

        Returns:
            Whether the split has finished.
        """
        return False

    def divide(self, split: int, positions: Mapping[int, Position]) -> Position:
        """Find the position from which a split continues after the number of splits was changed.

        Args:
            split: One of the new splits.
            positions: By former split, the position up to which it has been read.

        Returns:
            The position from which the new split is read.

        Raises:
            PipelineDefinitionError: By default, because the rows of the new splits are unknown.
        """
        raise PipelineDefinitionError(
            f"{type(self).__name__} has {self.splits} splits, and its positions are of {len(positions)}. Nothing was "
            "read. Give it the former number, or let its method `divide` return the position of each new split."
        )

    def num_splits(self) -> int:
        """See `tidegate.ports.Source`."""
        return self.splits

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        """See `tidegate.ports.Source`. Raise `SourceUnavailableError` where `latest` raises an `OSError`."""
        start = self._start(split, restored, context.other_splits)
        try:
            end = self._json(self.latest_within(split, start, context.max_bytes))
        except OSError as error:
            raise self._unavailable(f"split {split} could not be polled", error) from error
        ranged = {"split": split, "splits": self.splits, "from": start, "to": end}
        return self._segment(ranged), Snapshot((), ranged, finished=self.has_ended(split, end))

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        """See `tidegate.ports.Source`."""
        return None if taken.position is None else self._segment(taken.position)

    def read(self, spark: "SparkSession", segments: Sequence[Segment], output: str = "rows") -> "DataFrame":
        """See `tidegate.ports.Source`. Runs a Spark task for each range of `arrow_reader`: by default each segment."""
        if output != "rows":
            raise PipelineDefinitionError(f"{type(self).__name__} has no output {output!r}.")
        return self._frame(spark, self.arrow_reader(segments) if segments else None, self.schema)

    def _frame(self, spark: "SparkSession", reader: "RangesReader | None", schema: Schema) -> "DataFrame":
        # pyspark is heavy and this module is imported when Airflow parses a DAG.
        from pyspark.sql import functions as F

        columns = self._columns(schema)
        if reader is None or not reader.ranges:
            nothing = [F.lit(None).cast(each.dataType).alias(each.name) for each in columns]
            return spark.range(1).select(nothing).limit(0)
        plan = RangesPlan(reader, arrow_schema(columns))
        return spark.range(0, len(reader.ranges), 1, len(reader.ranges)).mapInArrow(plan.run, columns)

    def arrow_reader(self, segments: Sequence[Segment]) -> "RangesReader":
        """See `tidegate.ports.ArrowSource`."""
        return RangesReader(self, tuple(dict(segment.reference) for segment in segments))

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        """See `tidegate.ports.Source`."""
        found = carried_in(str(error))
        return found.error if found is not None and found.file == self._name() else None

    def _start(self, split: int, restored: Snapshot | None, other_splits: Sequence[Snapshot]) -> Position:
        """Return the start of a poll, also from snapshots of splits that no longer exist."""
        if restored is not None and restored.position and restored.position["splits"] == self.splits:
            return restored.position["to"]
        recorded = [
            snapshot.position for snapshot in (restored, *other_splits) if snapshot is not None and snapshot.position
        ]
        former = [position for position in recorded if position["splits"] != self.splits]
        return self._json(self.divide(split, {each["split"]: each["to"] for each in former})) if former else None

    def _segment(self, ranged: Mapping[str, Any]) -> Segment | None:
        split, start, end = ranged["split"], ranged["from"], ranged["to"]
        if start == end:
            return None
        return Segment(split, {"split": split, "from": start, "to": end}, self.size(split, start, end))

    def _json(self, position: Position) -> Position:
        """Return a position as it is read back from a checkpoint, so that two can be compared."""
        try:
            return json.loads(json.dumps(position, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise PipelineDefinitionError(
                f"{type(self).__name__} has the position {position!r}, which is not JSON: {error}. Nothing was read. "
                "Let it be a number, a text, or a list or object of these."
            ) from error

    def _columns(self, schema: Schema) -> "StructType":
        from pyspark.errors import ParseException
        from pyspark.sql.types import StructType

        text = ddl_of(schema)
        try:
            columns = StructType.fromDDL(text)
        except ParseException as error:
            raise PipelineDefinitionError(
                f"The schema of {type(self).__name__} is not Spark DDL: {text!r}. {error}"
            ) from error
        return cast("StructType", columns)

    def _range(self, split: int, start: Position, end: Position) -> str:
        """Return the name of a range for errors."""
        return f"split {split} from {start!r} to {end!r}"

    def _name(self) -> str:
        """Return the name that distinguishes its errors from those of other sources."""
        return json.dumps(self.describe(), sort_keys=True)

    def _unavailable(self, what: str, error: OSError) -> SourceUnavailableError:
        return SourceUnavailableError(
            f"{type(self).__name__} cannot be reached: {what} ({type(error).__name__}: {error}). {AS_BEFORE}Repeat it "
            "when the source is back."
        )


@dataclass(frozen=True)
class RangesReader:
    """Implements `ports.ArrowReader` for ranges of a `RangeSource`."""

    source: RangeSource
    ranges: tuple[Mapping[str, Any], ...]

    def read(self, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        for ranged in self.ranges:
            yield from self.read_one(ranged, schema)

    def read_one(self, ranged: Mapping[str, Any], schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """Read a range. Its `SourceUnavailableError` and `MalformedRowsError` reach the driver, where `explain` finds
        them."""
        split, start, end = ranged["split"], ranged["from"], ranged["to"]
        where = self.source._range(split, start, end)
        with carried(self.source._name()):
            try:
                for batch in self.source.read_between(split, start, end):
                    yield _fitted(batch, schema, f"{type(self.source).__name__}, {where}")
            except OSError as error:
                raise self.source._unavailable(f"{where} could not be read", error) from error


@dataclass(frozen=True)
class RangesPlan:
    """Reads ranges in Spark tasks: row i becomes the rows of `reader.ranges[i]`."""

    reader: RangesReader
    schema: "pa.Schema"

    def run(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for place in (place for batch in batches for place in batch.column(0).to_pylist()):
            yield from self.reader.read_one(self.reader.ranges[place], self.schema)


def _fitted(batch: "pa.RecordBatch", schema: "pa.Schema", where: str) -> "pa.RecordBatch":
    """Return a batch in the columns of the schema. Raise `MalformedRowsError`."""
    import pyarrow as pa

    arrays = []
    for field in schema:
        if batch.schema.get_field_index(field.name) < 0:
            raise MalformedRowsError(
                f"{where}: there is no column {field.name!r} among {', '.join(batch.schema.names)}. {AS_BEFORE}Let "
                "`read_between` return the columns of `schema`, with null where there is no value."
            )
        column = batch.column(field.name)
        try:
            arrays.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            raise MalformedRowsError(
                f"{where}: column {field.name!r} is {column.type}, and does not fit {field.type}, its type in the "
                f"schema: {error}. {AS_BEFORE}Correct the schema, or convert the values in `read_between`."
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
