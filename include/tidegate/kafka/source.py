"""`KafkaSource`: the records of a topic."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tidegate.kafka import polls, skipping
from tidegate.kafka.avro_schemas import AvroSchema
from tidegate.kafka.connections import DEFAULT, brokers_of
from tidegate.kafka.declared import columns_of_rows, columns_of_value, problems_of, start_as_json
from tidegate.kafka.formats import Format
from tidegate.kafka.positions import Position, Range, is_of, merged, pieces_of, ranges_between
from tidegate.kafka.refusals import Topic
from tidegate.kafka.topics import OnTopic
from tidegate.ports import ReadableStorage, ReadSince, Segment, Sink, Skipped, Snapshot
from tidegate.ports.declared_schemas import Schema, ddl_of
from tidegate.protocol.facts.errors import (
    CheckpointError,
    MissingConnectionError,
    NotInstalledError,
    PipelineDefinitionError,
    SourceChangedError,
    SourceUnavailableError,
)
from tidegate.protocol.facts.records import Pending
from tidegate.sources.range_source import RangeSource, RangesReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.kafka.polls import Found
    from tidegate.kafka.rows import KafkaRead
    from tidegate.kafka.topic_queries import TopicQueries

#: Offsets that one Spark task reads.
_TASK = 250_000


class KafkaSource(OnTopic, RangeSource):
    """A topic in Kafka. Each checkpoint reads the records that were committed since the one before, each once.

    The positions of a checkpoint record how far it has read, and no offsets are stored in Kafka. An open transaction
    holds back the records behind it, and aborted records are never read.

    Args:
        topic: The name of the topic.
        connection: The name of a connection to its brokers, in Airflow or the environment.
        splits: The number of splits, each of which has its own position. Partition p belongs to split p mod `splits`.
            It may be changed.
        format: The format of values: JSON, Avro or bytes.
        schema: The columns: Spark DDL, a pyspark `StructType` or a pydantic model. By default those of the Avro schema,
            and of bytes `value BINARY`.
        metadata: The part of the record, apart from the value, that a column has, by the name of the column: `key`,
            `timestamp`, `partition`, `offset`, `headers` or `topic`. Columns that `schema` does not name follow its
            own.
        start: The first records to read: all that exist, those that arrive from now on, those not older than a time, or
            those from an offset for each partition. A partition that is found later is read from its first record.
        malformed: The treatment of records that do not fit the schema: `"fail"` fails the checkpoint, `"quarantine"`
            writes them to the quarantine.
        quarantine: The sink of malformed records, with the columns topic, partition, offset, value and reason.
        max_rows: The rows that one checkpoint reads at most, shared evenly between the splits.
        avro: The schema of a record as JSON: an object or its text. By default the one in `schemas` with the largest
            id.
        schemas: The schemas, by id, of values that begin with a zero and an id, in the framing of schema registries.
        tombstones: The treatment of records without a value: `"malformed"`, `"skip"` to leave them out, or `"null"` for
            rows of nulls. With `format="bytes"`, their value is null.

    Raises:
        PipelineDefinitionError: If an option is wrong, or does not fit the others.

    Example:
        ```python
        from tidegate import KafkaSource, ParquetSink, Pipeline, count

        clicks = KafkaSource(
            "clicks",
            splits=2,
            schema="page STRING, user BIGINT",
            metadata={"at": "timestamp"},
            malformed="quarantine",
            quarantine=ParquetSink("tables/malformed"),
        )
        pages = Pipeline("clicks").source("clicks", clicks).key_by("page").aggregate("pages", clicks=count())
        pages.sink("pages", ParquetSink("tables/pages", mode="latest"))
        ```
    """

    def __init__(
        self,
        topic: str,
        connection: str = DEFAULT,
        splits: int = 1,
        *,
        format: Literal["json", "avro", "bytes"] = "json",
        schema: Schema | None = None,
        metadata: Mapping[str, str] | None = None,
        start: Literal["earliest", "latest"] | datetime | Mapping[int, int] = "earliest",
        malformed: Literal["fail", "quarantine"] = "fail",
        quarantine: Sink | None = None,
        max_rows: int | None = None,
        avro: AvroSchema | None = None,
        schemas: Mapping[int, AvroSchema] | None = None,
        tombstones: Literal["malformed", "skip", "null"] = "malformed",
    ) -> None:
        self.topic, self.connection, self.splits, self.format = topic, connection, splits, format
        self.metadata, self.start, self.max_rows = dict(metadata or {}), start, max_rows
        self.malformed, self._quarantine = malformed, quarantine
        self.form = Format(format, tombstones, avro, dict(schemas or {}))
        self._declared = "" if schema is None else ddl_of(schema)
        self._left: dict[int, Mapping[int, int]] = {}  # by polled split and partition
        if problem := next(problems_of(self, self._declared), None):
            raise PipelineDefinitionError(f"KafkaSource({topic!r}): {problem}.")
        if columns_of_value(self._declared, self.metadata) is None:
            self._declared = ", ".join(each for each in (self.form.columns(), self._declared.strip()) if each)
        self.schema = columns_of_rows(self._declared, self.metadata)

    @property
    def quarantine(self) -> Sink | None:
        """See `ports.QuarantiningSource`."""
        return self._quarantine

    def describe(self) -> dict[str, Any]:
        """See `ports.Source`."""
        return {
            "type": "KafkaSource",
            "path": f"kafka://{self.connection}/{self.topic}",
            "splits": self.splits,
            "format": self.format,
            "schema": self._declared,
            "metadata": dict(self.metadata),
            "start": start_as_json(self.start),
            "malformed": self.malformed,
            "max_rows": self.max_rows,
            **self.form.described(),
        }

    def problems(self) -> list[str]:
        """See `ports.CheckedSource`. Raises `NotInstalledError`."""
        try:
            self._queries(was_read=False).found(lambda _: True)
        except (MissingConnectionError, SourceUnavailableError):  # the first run finds out
            return []
        except NotInstalledError:
            raise
        except CheckpointError as error:
            return [str(error)]
        return []

    # -- ranges of offsets

    def latest(self, split: int, position: Any) -> Any:
        """See `RangeSource`. Raise `PipelineDefinitionError`, `SourceChangedError`, `SourceUnavailableError`,
        `ConfigurationError`."""
        return self.latest_within(split, position, None)

    def latest_within(self, split: int, position: Any, max_bytes: int | None) -> Any:
        """See `RangeSource`."""
        before = None if position is None else Position.read(position)
        queries = self._queries(was_read=before is not None)
        found = queries.found(partial(is_of, split=split, splits=self.splits))
        starts = self._starts(queries, found, split) if before is None else None
        begun = polls.begin(self._topic, before, found, starts)
        ends = {each: bounds.end for each, bounds in found.partitions.items()}
        size = begun.bytes or self._measured(queries, begun.offsets, ends)
        polled = polls.bounded(begun.offsets, ends, polls.rows_within(self._share(split), max_bytes, size))
        self._left[split] = polled.left
        return Position(begun.topic_id, polled.offsets, begun.began, size).stored()

    def _measured(self, queries: "TopicQueries", begins: Mapping[int, int], ends: Mapping[int, int]) -> int | None:
        """Return the bytes of a record, if new ones have arrived."""
        arrived = [each for each, offset in begins.items() if offset < ends[each]]
        return queries.row_bytes(arrived[0], begins[arrived[0]]) if arrived else None

    def _starts(self, queries: "TopicQueries", found: "Found", split: int) -> dict[int, int]:
        """Return the offsets of `start=`, by partition."""
        if self.start == "earliest":
            return {each: bounds.first for each, bounds in found.partitions.items()}
        if self.start == "latest":
            return {each: bounds.end for each, bounds in found.partitions.items()}
        if isinstance(self.start, datetime):
            at = queries.at(self.start, found.partitions)
            return {each: min(at.get(each, bounds.end), bounds.end) for each, bounds in found.partitions.items()}
        assert not isinstance(self.start, str)
        own = {each: offset for each, offset in self.start.items() if is_of(each, split, self.splits)}
        return polls.named(self._topic, own, found)

    def _share(self, split: int) -> int | None:
        if self.max_rows is None:
            return None
        share, rest = divmod(self.max_rows, self.splits)
        return share + (split < rest)

    def divide(self, split: int, positions: Mapping[int, Any]) -> Any:
        """See `RangeSource`. A partition continues where it was read up to, whichever split had it."""
        return merged(positions.values(), split, self.splits).stored()

    def size(self, split: int, start: Any, end: Any) -> int:
        """See `RangeSource`."""
        rows = sum(upto - begin for _, begin, upto in ranges_between(start, end))
        return rows * (end["bytes"] or 0)

    def pending(self, split: int) -> Pending | None:
        """See `ports.LaggingSource`."""
        if (left := self._left.get(split)) is None:
            return None
        return Pending(sum(left.values()), "rows", parts={str(each): rows for each, rows in left.items()})

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """See `ports.BacklogSource`."""
        return any(self._left.get(split, {}).values())

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """See `ports.RereadingSource`. Leaves out partitions that another split had when `restored` was taken."""
        if taken is None or taken.position is None:
            return ReadSince(0, 0, ())
        start = None if restored is None or restored.position is None else restored.position
        end = taken.position["to"]
        ranges = ranges_between(None if start is None else start["to"], end)
        if start is not None and start["splits"] != taken.position["splits"]:
            ranges = [each for each in ranges if str(each[0]) in start["to"]["offsets"]]
        rows = sum(upto - begin for _, begin, upto in ranges)
        return ReadSince(rows, rows * (end["bytes"] or 0), self._missing(ranges, end) if ranges else ())

    def _missing(self, ranges: Sequence[Range], end: Any) -> list[str]:
        """Return the records of some ranges that retention has deleted, or all of them if the topic is another one."""
        wanted = {partition for partition, _, _ in ranges}
        try:
            found = self._queries(was_read=True).found(wanted.__contains__)
            gone = polls.gone(self._topic, Position.read(end), found, ranges)
        except SourceChangedError:
            gone = list(ranges)
        return [self._topic.records(*each) for each in gone]

    def skip_lost(self, position: Mapping[str, Any]) -> Skipped | None:
        """See `ports.SkippingSource`."""
        before = Position.read(position["to"])
        lost, behind = skipping.skip_lost(before, self._queries(was_read=True).found(before.offsets.__contains__))
        return Skipped(lost, {"from": behind.stored(), "to": behind.stored()}) if lost else None

    def cut_lost(self, reference: Mapping[str, Any]) -> Skipped | None:
        """See `ports.SkippingSource`."""
        start, end = reference["from"], reference["to"]
        wanted = {partition for partition, _, _ in ranges_between(start, end)}
        found = self._queries(was_read=True).found(wanted.__contains__)
        lost, rest = skipping.cut_lost(start, end, found)
        ends = None if rest is None else {"from": rest[0].stored(), "to": rest[1].stored()}
        return Skipped(lost, None if ends is None else {**reference, **ends}) if lost else None

    def _segment(self, ranged: Mapping[str, Any]) -> Segment | None:
        """Return None if its partitions have nothing new, even where the position has more than before."""
        return super()._segment(ranged) if ranges_between(ranged["from"], ranged["to"]) else None

    def read_between(self, split: int, start: Any, end: Any) -> "Iterator[pa.RecordBatch]":
        """See `RangeSource`. Spark's tasks use `arrow_reader` instead, with a task for each partition."""
        from tidegate.sources.parquet_frames import arrow_schema

        yield from self._read().batches(ranges_between(start, end), arrow_schema(self._columns(self.schema)))

    def read(self, spark: "SparkSession", segments: Sequence[Segment], output: str = "rows") -> "DataFrame":
        """See `ports.Source`."""
        if output != "malformed":
            return super().read(spark, segments, output)
        from tidegate.kafka.rows import MALFORMED

        reader = self._reader(segments, output) if segments else None
        return self._frame(spark, reader, MALFORMED)

    def arrow_reader(self, segments: Sequence[Segment]) -> RangesReader:
        """See `ports.ArrowSource`: some of the offsets of a partition for each Spark task."""
        return self._reader(segments, "rows")

    def _reader(self, segments: Sequence[Segment], output: str) -> RangesReader:
        from tidegate.kafka.reading import reader_of

        bounds = [(segment.reference["from"], segment.reference["to"]) for segment in segments]
        ranges = pieces_of((piece for start, end in bounds for piece in ranges_between(start, end)), _TASK)
        return reader_of(self._read(), self.schema, self.describe(), ranges, output)

    def _read(self) -> "KafkaRead":
        from tidegate.kafka.rows import KafkaRead

        return KafkaRead(
            brokers_of(self.connection),
            self._topic,
            self.form,
            ddl_of(self.schema),
            self.metadata,
            self.malformed,
        )

    @property
    def _topic(self) -> Topic:
        return Topic(self.topic, self.connection)

    def _queries(self, was_read: bool) -> "TopicQueries":
        """Raise `NotInstalledError`, `MissingConnectionError`, `ConfigurationError`."""
        from tidegate.kafka.clients import require_client

        require_client()
        from tidegate.kafka.topic_queries import TopicQueries

        return TopicQueries(brokers_of(self.connection), self._topic, was_read)
