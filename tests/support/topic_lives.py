"""A topic that others write to, and a reader of it that polls as checkpoints do, dies and is restored."""

import json
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from kafka_brokers import Broker

from tidegate import KafkaSource
from tidegate.ports import Segment, Snapshot, SourceContext

IDS = pa.schema([("id", pa.int64())])


class TopicReader:
    """Polls all splits as checkpoints do, each time by a new source."""

    def __init__(self, topic: str, splits: int = 1, columns: pa.Schema = IDS, **options: Any) -> None:
        self.topic, self.columns = topic, columns
        self.options = {"splits": splits, "schema": "id BIGINT", **options}
        self.taken: dict[int, Snapshot] = {}  # by split

    def make(self, **other: Any) -> KafkaSource:
        return KafkaSource(self.topic, **{**self.options, **other})

    def poll(self, source: KafkaSource | None = None, max_bytes: int | None = None, **other: Any) -> list[Segment]:
        """The segments of one checkpoint."""
        source = source or self.make(**other)
        segments, taken = [], {}
        for split in range(source.splits):
            other_splits = [each for number, each in self.taken.items() if number != split]
            context = SourceContext(None, 1, "x", other_splits, max_bytes)
            segment, snapshot = source.poll(split, self.taken.get(split), context)
            taken[split] = Snapshot((), json.loads(json.dumps(snapshot.position)))
            assert source.replay(split, self.taken.get(split), taken[split], None) == segment
            segments += [segment] if segment is not None else []
        self.taken = taken
        return segments

    def rows(self, segments: list[Segment], **other: Any) -> list[dict[str, Any]]:
        reader = self.make(**other).arrow_reader(segments)
        return [row for batch in reader.read(self.columns) for row in batch.to_pylist()]

    def ids(self, **other: Any) -> list[int]:
        return sorted(row["id"] for row in self.rows(self.poll(**other), **other))


def values(*ids: int) -> list[str]:
    return [json.dumps({"id": each}) for each in ids]


class Writers:
    """Transactions, some of which abort, and records of none. Each has a transactional id of its own, and one is open
    at a time: see what the binary does not do right in `kafka_brokers`."""

    def __init__(self, broker: Broker, topic: str, random: Random) -> None:
        self._broker, self._topic, self._random = broker, topic, random
        self._open: list[Producer] = []
        self._ids = count()

    def write(self) -> None:
        partition = self._random.randrange(len(self._broker.ends(self._topic)))
        self._broker.produce(self._topic, self._values(), partition)

    def begin(self) -> None:
        if not self._open:
            self._open.append(self._broker.open_transaction(f"{self._topic}-{next(self._ids)}"))
        self.insert()

    def insert(self) -> None:
        partitions = len(self._broker.ends(self._topic))
        for value in self._values() if self._open else []:
            self._open[-1].produce(self._topic, value, partition=self._random.randrange(partitions))
            self._open[-1].flush(30)

    def end(self, every: bool = False) -> None:
        while self._open:
            one = self._open.pop(self._random.randrange(len(self._open)))
            one.abort_transaction(30) if self._random.random() < 0.4 else one.commit_transaction(30)
            if not every:
                return

    def grow(self) -> None:
        if (partitions := len(self._broker.ends(self._topic))) < 6:
            self._broker.grow(self._topic, partitions + 1)

    def _values(self) -> list[str]:
        return values(*(next(self._ids) for _ in range(self._random.choice([1, 1, 2, 7]))))


@dataclass
class Taken:
    """A checkpoint: the positions after it, and what it has read."""

    snapshots: dict[int, Snapshot]
    segments: list[Segment]
    ids: list[int]


def live(broker: Broker, seed: int, steps: int = 40) -> None:
    """Write and read in any order, with any number of splits. Raises `AssertionError` if a record was lost, or read
    twice."""
    random = Random(seed)
    topic = broker.topic(2)
    writers, reader = Writers(broker, topic, random), TopicReader(topic)
    broker.produce(topic, values(1_000_000), 0)
    latest = TopicReader(topic, start="latest")
    latest.poll()
    taken: list[Taken] = []
    for _ in range(steps):
        match random.choice(
            ["write", "begin", "insert", "end", "end", "grow", "poll", "poll", "poll", "die", "restore"]
        ):
            case "write":
                writers.write()
            case "begin":
                writers.begin()
            case "insert":
                writers.insert()
            case "end":
                writers.end()
            case "grow":
                writers.grow()
            case "poll" | "die" as what:
                _checkpoint(reader, taken, random, writers, dies=what == "die")
            case "restore" if taken:
                del taken[random.randrange(len(taken)) :]
                reader.taken = taken[-1].snapshots if taken else {}
    writers.end(every=True)
    while _checkpoint(reader, taken, random, None, dies=False):
        pass
    found = sorted(id_ for each in taken for id_ in each.ids)
    expected = sorted(row["id"] for row in broker.rows(topic))
    assert found == expected, f"Seed {seed}: lost {sorted(set(expected) - set(found))}, read {len(found)} rows"
    some = taken[::2]  # as a restore to in-flight data reads several segments at once
    together = sorted(row["id"] for row in reader.rows([segment for each in some for segment in each.segments]))
    assert together == sorted(id_ for each in some for id_ in each.ids), f"Seed {seed}: together they are other rows"
    assert latest.ids(splits=3) == expected[:-1], f"Seed {seed}: start is asked again"


def _checkpoint(
    reader: TopicReader, taken: "list[Taken]", random: Random, writers: Writers | None, dies: bool
) -> list[Segment]:
    """A checkpoint, whose rows may be read several times, after others have written. One that dies before its positions
    are on record is polled again."""
    before = reader.taken
    splits = random.choice([1, 2, 2, 3])
    segments = reader.poll(splits=splits, max_rows=random.choice([None, splits, 3, 5]))
    if dies:
        reader.taken = before
        return segments
    read = sorted(row["id"] for row in reader.rows(segments))
    if writers is not None and random.random() < 0.4:
        writers.end()
        writers.write()
        again = [reader.make(splits=splits).replay(each, None, reader.taken[each], None) for each in range(splits)]
        assert [each for each in again if each is not None] == segments, "a retry has other segments"
        assert sorted(row["id"] for row in reader.rows(segments)) == read, "a retry has read other rows"
    taken.append(Taken(reader.taken, segments, read))
    return segments
