"""Topics as sources of a simulated scheduled pipeline.

The real `KafkaSource` polls brokers in memory, to which producers write in transactions that they commit, abort or
leave open.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from random import Random
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from simulator.brokers import FencedError
from simulator.kafka import CONNECTION, Kafka
from simulator.scheduler import require
from simulator.sources import Row, SimulatedSource
from simulator.temper import CALM
from tidegate.kafka.source import KafkaSource
from tidegate.kafka.topic_queries import TopicQueries
from tidegate.ports import CheckpointStorage, Segment, SourceContext
from tidegate.protocol.facts.records import Snapshot, SubtaskId

if TYPE_CHECKING:
    from simulator.world import World

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the sources that they always drew.
_SALT = 19127
#: A record as the number of a piece: its partition is in the bits above these, its offset in them.
_BITS = 20
_MOST_PARTITIONS = 5


def is_topic(seed: int, number: int) -> bool:
    """Whether a source is a topic. Draws of its own, so that the rest stays as it was drawn."""
    return Random(f"topic sources {_SALT} {seed} {number}").random() < 0.08


def loses_records(world: "World") -> bool:
    """Whether retention deletes records of topics. Not where pipelines are forked or taken to another database, as what
    was skipped does not go with them."""
    other = world.drawn.forking or world.drawn.saving or world.corrections.drawn
    there = any(isinstance(source, TopicSource) for source in world.sources.values())
    return there and not other and Random(f"retention {world.seed}").random() < 0.6


class Producers:
    """The producers of one topic. They write `pieces` of rows, and again what a transaction has not committed."""

    def __init__(self, world: "World", kafka: Kafka, topic: str, pieces: Sequence[Sequence[Row]]) -> None:
        self._world, self._brokers, self._draws, self._topic = world, kafka.brokers, kafka.draws, topic
        self._left = list(pieces)
        self._open: dict[str, tuple[int, list[Sequence[Row]]]] = {}  # by producer, its epoch and what it has written
        self.logs = kafka.brokers.topic(topic, kafka.draws.choice([1, 2, 3, 4]))
        self.at_first = len(self.logs)
        self.goes_on: dict[tuple[int, int], int] = {}  # by checkpoint and partition, where the skip behind it ends
        self._skips: list[tuple[int, int, set[int]]] = []

    def have_more(self) -> bool:
        return bool(self._left or self._open)

    def go_on(self) -> None:
        """One of them writes, or ends its transaction, or the topic gets another partition."""
        draws = self._draws
        if self._open and (not self._left or draws.random() < 0.5):
            return self._end(draws.choice(sorted(self._open)))
        if draws.random() < 0.1 and len(self.logs) < _MOST_PARTITIONS:
            self._brokers.topic(self._topic, len(self.logs) + 1)
            self._world.tell(f"{self._topic} has {len(self.logs)} partitions")
        name = f"producer {draws.randrange(2)} of {self._topic}"
        epoch, written = self._open.setdefault(name, (self._brokers.initialise(name), []))
        written.append(self._left.pop(0))
        for row in written[-1]:
            try:
                self._brokers.append(name, epoch, draws.choice(self.logs), None, json.dumps(row).encode())
            except FencedError:
                return self._begin_again(name)
        self._world.tell(f"{name} has written {written[-1]}")
        if draws.random() < 0.5:
            self._end(name)
        return None

    def _end(self, name: str) -> None:
        is_committed = self._draws.random() < 0.75
        try:
            self._brokers.end(name, self._open[name][0], is_committed)
        except FencedError:
            return self._begin_again(name)
        self._world.tell(f"{name} {'commits' if is_committed else 'aborts'}")
        return self._open.pop(name) and None if is_committed else self._begin_again(name)

    def _begin_again(self, name: str) -> None:
        self._left += self._open.pop(name)[1]

    def committed(self, partition: int, end: int) -> list[int]:
        """The records before an offset that readers see, or will see, as numbers of pieces."""
        found = enumerate(self.logs[partition].records[:end])
        return [partition << _BITS | at for at, each in found if each.transaction and each.transaction.is_committed]

    def skip(self, checkpoint_id: int, newest: int, partition: int, first: int, goes_on: int) -> None:
        """Records are read by nothing that follows a checkpoint from now on. `newest`: the last one there was."""
        lost = set(self.committed(partition, goes_on)) - set(self.committed(partition, first))
        self._skips.append((checkpoint_id, newest, lost))
        self.goes_on[checkpoint_id, partition] = goes_on

    def skipped(self, branch: Collection[int]) -> set[int]:
        """By a branch. One that had gone on before a skip has read what it could."""
        counts = [
            lost
            for checkpoint_id, newest, lost in self._skips
            if checkpoint_id in branch and not any(checkpoint_id < each <= newest for each in branch)
        ]
        return set[int]().union(*counts)

    def row(self, piece: int) -> Row:
        key, value = json.loads(self.logs[piece >> _BITS].records[piece & ((1 << _BITS) - 1)].value)
        return key, value


class TopicSource(KafkaSource, SimulatedSource):
    """Reads a topic whose records have the rows of all pieces."""

    def __init__(self, world: "World", name: str, pieces: Sequence[Sequence[Sequence[Row]]], limit: int | None) -> None:
        SimulatedSource.__init__(self, world, name, pieces, limit)
        columns = str(SimulatedSource.schema)
        most = None if limit is None else limit * len(pieces) + 1
        KafkaSource.__init__(self, name, CONNECTION, len(pieces), schema=columns, max_rows=most)
        self.kafka = _kafka_of(world, name)
        self.changes = Random(f"changes of {name} {world.seed}")
        self.resplits = not world.drawn.changes and self.changes.random() < 0.5
        self.deletions = self.changes.choice([1, 2, 3])
        self._written: Producers | None = None

    @property
    def producers(self) -> Producers:
        """Made late: rows get their event times after they were drawn."""
        if self._written is None:
            rows = [piece for split in self.pieces for piece in split]
            self._written = Producers(self.world, self.kafka, self.topic, rows)
        return self._written

    def num_splits(self) -> int:
        return self.splits

    def with_splits(self, splits: int) -> "TopicSource":
        """The same in other words."""
        assert self.producers
        changed = copy(self)
        changed.splits, changed._left = splits, {}
        changed.max_rows = None if self.max_rows is None else max(self.max_rows, splits)
        return changed

    def missing(self, split: int) -> list[int]:
        return [0] if split == 0 and self.producers.have_more() else []

    def arrive(self, split: int) -> None:
        self.producers.go_on()

    # -- what it reads

    def _queries(self, was_read: bool) -> TopicQueries:
        assert self.producers
        brokers: Any = self.kafka
        return TopicQueries(brokers, self._topic, was_read)

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        segment, snapshot = super().poll(split, restored, context)
        return self._named(segment), snapshot

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        self.world.point(f"replays {self.name}/{split}")
        return self._named(super().replay(split, restored, taken, storage))

    def _named(self, segment: Segment | None) -> Segment | None:
        if segment is None:
            return None
        return Segment(segment.split, {**segment.reference, "source": self.name}, segment.bytes)

    def rows(self, segment: Segment) -> list[Row]:
        """By a consumer for each range that a Spark task would read."""
        ranges = [one for ranged in self.arrow_reader([segment]).ranges for one in ranged["to"]]
        return [row for one in ranges for row in self._records(*one)]

    def _records(self, partition: int, start: int, end: int) -> list[Row]:
        log = self.producers.logs[partition]
        if start < log.first:
            raise self._topic.lost_meanwhile(partition, start, end)
        require(end <= log.stable, f"{self.name}: partition {partition} is read to {end}, and ends at {log.stable}")
        try:
            found = self.kafka.call(f"reads {self.topic}/{partition} to {end}", lambda: log.committed(start, end))
        except KafkaException as error:
            raise self._topic.refused(error.args[0].name(), "the answer is lost", False) from error
        return [(key, value) for key, value in (json.loads(each.value) for each in found or ())]

    # -- for the observer

    def has_all(self, split: int, read: Mapping[int, int]) -> bool:
        logs = self.producers.logs
        there = {piece for partition in range(len(logs)) for piece in self.producers.committed(partition, 1 << _BITS)}
        return split > 0 or read.keys() == there - self._skipped()

    def pieces_in(
        self, snapshots: Mapping[SubtaskId, Snapshot], files: Mapping[str, bytes]
    ) -> dict[SubtaskId, dict[int, int]]:
        """All by the first split: which one has read a partition may change."""
        found = SimulatedSource.pieces_in(self, snapshots, files)
        read = [piece for pieces in found.values() for piece in pieces]
        require(len(read) == len(set(read)), f"two splits of {self.name} have read the same: {found}")
        return {SubtaskId(self.name, 0): dict.fromkeys(read, 0)}

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> dict[int, int]:
        if not snapshot.position:
            return {}
        offsets, splits = snapshot.position["to"]["offsets"], snapshot.position["splits"]
        others = [partition for partition in offsets if int(partition) % splits != split]
        require(not others, f"{self.name}/{split} of {splits} has read partitions {others}")
        read = {piece for each, end in offsets.items() for piece in self.producers.committed(int(each), end)}
        return dict.fromkeys(sorted(read - self._skipped()), 0)

    def _skipped(self) -> set[int]:
        """By what a checkpoint follows that completes now."""
        return self.producers.skipped(self.world.observer.history.now.branch)

    def rows_of(self, split: int, piece: int, version: int) -> Sequence[Row]:
        return [self.producers.row(piece)]


def _kafka_of(world: "World", name: str) -> Kafka:
    draws = Random(f"{name} {world.seed}")
    worst = draws.choice([0.0, 0.01, 0.05])

    def trouble() -> float:
        return 0.0 if world.temper == CALM else worst

    return Kafka(world.kafka.brokers, world.point, world.die, world.clock, draws, trouble)
