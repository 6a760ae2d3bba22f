"""`KafkaSource`: the records of a topic."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tidegate.kafka.connections import DEFAULT, brokers_of
from tidegate.kafka.positions import Position, is_of, merged, ranges_between
from tidegate.ports import Segment
from tidegate.ports.declared_schemas import Schema, ddl_of
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.records import Pending
from tidegate.protocol.schema.ddl import columns_of
from tidegate.sources.range_source import RangeSource, RangesReader

if TYPE_CHECKING:
    import pyarrow as pa

    from tidegate.kafka.asking import Asked
    from tidegate.kafka.polls import Found
    from tidegate.kafka.refusals import Topic
    from tidegate.kafka.rows import KafkaRead

#: What a column may have of a record besides its value, with the types of Spark's own source.
METADATA: Mapping[str, str] = {
    "key": "BINARY",
    "timestamp": "TIMESTAMP",
    "partition": "INT",
    "offset": "BIGINT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "topic": "STRING",
}
_WORDS = ("earliest", "latest")


class KafkaSource(RangeSource):
    """A topic in Kafka. Each checkpoint reads the records that were committed since the one before, each once.

    Args:
        topic: The name of the topic.
        connection: The name of a connection to its brokers, in Airflow or the environment.
        splits: The number of splits, each of which has its own position. Partition p belongs to split p mod `splits`.
            It may be changed.
        format: How values are written.
        schema: The columns: Spark DDL, a pyspark `StructType` or a pydantic model.
        metadata: By name of a column, what it has of the record besides the value: `key`, `timestamp`, `partition`,
            `offset`, `headers` or `topic`. A column that `schema` does not name comes behind those that it does.
        start: What is read first: all that is there, what arrives from now on, what is not older than a time, or by
            partition an offset. A partition that is found later is read from its first record on.
        max_rows: The rows that one checkpoint reads at most.

    Raises:
        PipelineDefinitionError: If an option is wrong.

    Example:
        ```python
        from tidegate import KafkaSource, ParquetSink, Pipeline, count

        clicks = KafkaSource("clicks", splits=2, schema="page STRING, user BIGINT")
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
        format: Literal["json"] = "json",
        schema: Schema,
        metadata: Mapping[str, str] | None = None,
        start: str | datetime | Mapping[int, int] = "earliest",
        max_rows: int | None = None,
    ) -> None:
        self.topic, self.connection, self.splits, self.format = topic, connection, splits, format
        self.metadata, self.start, self.max_rows = dict(metadata or {}), start, max_rows
        self._declared = ddl_of(schema)
        self._pending: dict[int, Mapping[int, int]] = {}
        self._check()
        self.schema = self._columns_of_rows()

    def _check(self) -> None:
        for name, number in (("splits", self.splits), ("max_rows", self.max_rows)):
            if number is not None and number < 1:
                self._refuse(f"{name} is {number}, but must be at least 1")
        for name, kind in self.metadata.items():
            if kind not in METADATA:
                self._refuse(f"metadata= has {kind!r} for column {name!r}, but must be one of {', '.join(METADATA)}")
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            self._refuse("start is a time without a zone, such as datetime(2026, 11, 28, tzinfo=UTC)")
        if isinstance(self.start, str) and self.start not in _WORDS:
            self._refuse(f'start is {self.start!r}, but must be "earliest", "latest", a time, or offsets by partition')

    def _refuse(self, why: str) -> NoReturn:
        raise PipelineDefinitionError(f"KafkaSource({self.topic!r}): {why}.")

    def _columns_of_rows(self) -> str:
        """Those of the values, and of the metadata."""
        declared = dict(columns_of(self._declared))
        more = [f"`{name}` {METADATA[kind]}" for name, kind in self.metadata.items() if name not in declared]
        return ", ".join([self._declared.strip(), *more])

    def describe(self) -> dict[str, Any]:
        """See `ports.Source`."""
        start = self.start.isoformat() if isinstance(self.start, datetime) else self.start
        return {
            "type": "KafkaSource",
            "path": f"kafka://{self.connection}/{self.topic}",
            "splits": self.splits,
            "format": self.format,
            "schema": self._declared,
            "metadata": dict(self.metadata),
            "start": start if isinstance(start, str) else {str(each): offset for each, offset in start.items()},
            "max_rows": self.max_rows,
        }

    # -- ranges of offsets

    def latest(self, split: int, position: Any) -> Any:
        """See `RangeSource`. Raises `PipelineDefinitionError`, `SourceChangedError`, `SourceUnavailableError`,
        `ConfigurationError`."""
        return self.latest_within(split, position, None)

    def latest_within(self, split: int, position: Any, max_bytes: int | None) -> Any:
        """See `RangeSource`."""
        from tidegate.kafka import polls

        asked = self._asked()
        before = None if position is None else Position.read(position)
        found = asked.found(partial(is_of, split=split, splits=self.splits))
        starts = self._starts(asked, found, split) if before is None else None
        begun = polls.begin(self._topic, before, found, starts)
        row_bytes = None if before is None else before.bytes
        ends = {each: bounds.end for each, bounds in found.partitions.items()}
        there = [each for each, offset in begun.offsets.items() if offset < ends[each]]
        if row_bytes is None and there:
            row_bytes = asked.row_bytes(there[0], begun.offsets[there[0]])
        polled = polls.bounded(begun.offsets, ends, polls.rows_within(self._share(split), max_bytes, row_bytes))
        self._pending[split] = polled.left
        return Position(found.topic_id, polled.offsets, begun.began, row_bytes).stored()

    def _starts(self, asked: "Asked", found: "Found", split: int) -> dict[int, int]:
        """What `start=` means, by partition."""
        if self.start == "earliest":
            return {each: bounds.first for each, bounds in found.partitions.items()}
        if self.start == "latest":
            return {each: bounds.end for each, bounds in found.partitions.items()}
        if isinstance(self.start, datetime):
            at = asked.at(self.start, found.partitions)
            return {each: min(at.get(each, bounds.end), bounds.end) for each, bounds in found.partitions.items()}
        assert not isinstance(self.start, str)
        mine = {each: offset for each, offset in self.start.items() if is_of(each, split, self.splits)}
        if missing := sorted(set(found.partitions) - set(mine)):
            raise self._topic.without_offset(missing)
        if more := sorted(set(mine) - set(found.partitions)):
            raise self._topic.no_such_partitions(more, len(found.partitions))
        return mine

    def _share(self, split: int) -> int | None:
        if self.max_rows is None:
            return None
        share, rest = divmod(self.max_rows, self.splits)
        return share + (split < rest)

    def divide(self, split: int, positions: Mapping[int, Any]) -> Any:
        """See `RangeSource`. A partition goes on where it was read up to, whichever split had it."""
        return merged(positions.values(), split, self.splits).stored()

    def size(self, split: int, start: Any, end: Any) -> int:
        """See `RangeSource`."""
        rows = sum(upto - begin for _, begin, upto in ranges_between(start, end))
        return rows * (end["bytes"] or 0)

    def pending(self, split: int) -> Pending | None:
        """See `ports.LaggingSource`."""
        return Pending(sum(self._pending[split].values()), "rows") if split in self._pending else None

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """See `ports.BacklogSource`."""
        return any(self._pending.get(split, {}).values())

    def _segment(self, ranged: Mapping[str, Any]) -> Segment | None:
        """None if its partitions have nothing new, even where the position says more than before."""
        return super()._segment(ranged) if ranges_between(ranged["from"], ranged["to"]) else None

    def read_between(self, split: int, start: Any, end: Any) -> "Iterator[pa.RecordBatch]":
        """See `RangeSource`. Spark's tasks read by `arrow_reader` instead, a task for each partition."""
        from tidegate.sources.parquet_frames import arrow_schema

        yield from self._read().batches(ranges_between(start, end), arrow_schema(self._columns()))

    def arrow_reader(self, segments: Sequence[Segment]) -> RangesReader:
        """See `ports.ArrowSource`: a range for each partition."""
        from tidegate.kafka.reading import reader_of

        bounds = [(segment.reference["from"], segment.reference["to"]) for segment in segments]
        ranges = [one for start, end in bounds for one in ranges_between(start, end)]
        return reader_of(self._read(), self.schema, self.describe(), ranges)

    def _read(self) -> "KafkaRead":
        from tidegate.kafka.rows import KafkaRead

        return KafkaRead(brokers_of(self.connection), self._topic, self.format, self._declared, self.metadata)

    @property
    def _topic(self) -> "Topic":
        from tidegate.kafka.refusals import Topic

        return Topic(self.topic, self.connection)

    def _asked(self) -> "Asked":
        """Raises `NotInstalledError`, `MissingConnectionError`, `ConfigurationError`."""
        from tidegate.kafka.clients import require_client

        require_client()
        from tidegate.kafka.asking import Asked

        return Asked(brokers_of(self.connection), self._topic)
