"""Assigns ranges of a topic to Spark's tasks, and carries their errors to the driver."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from tidegate.kafka.positions import Range, joined
from tidegate.kafka.rows import KafkaRead
from tidegate.ports.declared_schemas import Schema
from tidegate.sources.range_source import RangeSource, RangesReader


@dataclass
class KafkaRows(RangeSource):
    """Ranges of a topic. Each ends with the offsets to read. `described` is the description of the source that wants
    them, `wanted` has the columns and their types."""

    what: KafkaRead
    schema: Schema
    described: Mapping[str, Any]
    wanted: pa.Schema | None = None
    output: str = "rows"

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        assert self.wanted is not None
        yield from self.what.batches([(one[0], one[1], one[2]) for one in end], self.wanted, self.output)

    def describe(self) -> dict[str, Any]:
        return dict(self.described)

    def _range(self, split: int, start: Any, end: Any) -> str:
        return str(self.what.topic)


@dataclass(frozen=True)
class KafkaReader(RangesReader):
    """Ranges of `KafkaRows`, with the wanted columns added. A task that reads all of them has one consumer."""

    source: KafkaRows

    def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        if self.ranges:
            every = joined(piece for ranged in self.ranges for piece in ranged["to"])
            yield from self.read_one({"split": 0, "from": None, "to": every}, schema)

    def read_one(self, ranged: Mapping[str, Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield from RangesReader(replace(self.source, wanted=schema), self.ranges).read_one(ranged, schema)


def reader_of(
    what: KafkaRead, schema: Schema, described: Mapping[str, Any], ranges: Sequence[Range], output: str
) -> KafkaReader:
    """Return a reader with a task for each range."""
    rows = KafkaRows(what, schema, described, None, output)
    return KafkaReader(rows, tuple({"split": 0, "from": None, "to": [piece]} for piece in ranges))
