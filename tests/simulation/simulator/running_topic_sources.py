"""Topics as sources of a simulated continuous run.

The real `KafkaSource` polls brokers in memory. The committed records of a partition are the rows of one split of a log,
in their order, so whatever holds for logs is held against topics too.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from worlds import Crash

from simulator.brokers import FencedError, Log
from simulator.graphs import rebuilt
from simulator.kafka import CONNECTION, Kafka
from simulator.running_log import Log as Rows
from simulator.scheduler import require
from tidegate.kafka.source import KafkaSource
from tidegate.kafka.topic_queries import TopicQueries
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import Segment, SourceContext
from tidegate.protocol.facts.records import Snapshot, SubtaskId

if TYPE_CHECKING:
    from simulator.running import Running

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the sources that they always drew.
_SALT = 284


def is_topic(seed: int, number: int) -> bool:
    """Whether a log that has no end is a topic. Draws of its own, so that the rest stays as it was drawn."""
    return Random(f"topic sources running {_SALT} {seed} {number}").random() < 0.08


def with_topics(world: "Running") -> list[Any]:
    return [
        TopicLog(world, log) if is_topic(world.seed, number) and not log.bounded else log
        for number, log in enumerate(world.sources)
    ]


def change_splits(world: "Running") -> None:
    """Before a run begins, while none is there."""
    for number, source in enumerate(world.sources):
        if isinstance(source, TopicLog) and not world.processes and source.draws.random() < 0.5:
            changed = world.sources[number] = source.with_splits(source.draws.choice([1, 2, 3]))
            world.tell(f"from now on {changed.name} has {changed.splits} splits")
            world.pipeline = rebuilt(
                world.pipeline,
                lambda vertex, changed=changed: (
                    replace(vertex, source=changed) if vertex.name == changed.name else vertex
                ),
            )
            world.graph = compile_graph(world.pipeline)


class TopicLog(KafkaSource):
    """Stands where a `running_log.Log` is asked for."""

    def __init__(self, world: "Running", log: Rows) -> None:
        self.draws = Random(f"{log.name} running {world.seed}")
        splits = self.draws.choice([1, 2, 3])
        super().__init__(log.name, CONNECTION, splits, schema=str(log.schema), max_rows=3 * log.step)
        self.name, self.lengths, self.bounded, self.step = log.name, log.lengths, False, log.step
        self.kafka = _kafka_of(world, self.draws)
        self.producer = _Producer(self.kafka, log.name, len(log.lengths))

    def with_splits(self, splits: int) -> "TopicLog":
        changed = copy(self)
        changed.splits, changed._left = splits, {}
        return changed

    # -- what is there

    @property
    def arrived(self) -> list[int]:
        """By partition, the rows that are there or may be committed."""
        return [self.producer.written(partition) for partition in range(len(self.lengths))]

    def arrive(self, split: int) -> None:
        self.producer.write(split, self.draws)

    def arrive_all(self) -> None:
        while self.producer.is_open or self.arrived != self.lengths:
            missing = [each for each, number in enumerate(self.arrived) if number < self.lengths[each]]
            self.producer.write(missing[0], None) if missing else self.producer.end(True)

    def most_pending(self) -> int:
        """Offsets, those of what no reader gets among them."""
        return sum(log.high for log in self.producer.logs)

    # -- what it reads

    def _queries(self, was_read: bool) -> TopicQueries:
        brokers: Any = self.kafka
        return TopicQueries(brokers, self._topic, was_read)

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        segment, snapshot = super().poll(split, restored, context)
        if segment is None:
            return None, snapshot
        ranges = [one for ranged in self.arrow_reader([segment]).ranges for one in ranged["to"]]
        rows = [row for one in ranges for row in self._rows(*one)]
        reference = {**segment.reference, "source": self.name, "rows": rows}
        return Segment(split, reference, segment.bytes), snapshot

    def _rows(self, partition: int, start: int, end: int) -> list[tuple[int, int]]:
        stable = self.producer.logs[partition].stable
        require(end <= stable, f"{self.name}: partition {partition} is read to {end}, and ends at {stable}")
        before, behind = (self.producer.committed(partition, each) for each in (start, end))
        return [(partition, number) for number in range(before, behind)]

    def offsets(self, snapshots: Mapping[SubtaskId, Snapshot]) -> dict[SubtaskId, int]:
        """By partition, the rows that checkpoints say were read."""
        read = dict.fromkeys(range(len(self.lengths)), 0)
        for subtask, snapshot in snapshots.items():
            if subtask.operator_id == self.name and snapshot.position:
                for partition, offset in snapshot.position["to"]["offsets"].items():
                    require(not read[int(partition)], f"two splits of {self.name} have read partition {partition}")
                    read[int(partition)] = self.producer.committed(int(partition), offset)
        return {SubtaskId(self.name, partition): number for partition, number in read.items()}


class _Producer:
    """Writes the rows of one topic, and again what it has aborted."""

    def __init__(self, kafka: Kafka, topic: str, partitions: int) -> None:
        self._brokers, self._name = kafka.brokers, f"producer of {topic}"
        self.logs: list[Log] = kafka.brokers.topic(topic, partitions)
        self._epoch: int | None = None

    @property
    def is_open(self) -> bool:
        return self._epoch is not None

    def write(self, partition: int, draws: Random | None) -> None:
        """A row, and perhaps others write what they abort. Without `draws`, it is committed at once."""
        if draws is not None and draws.random() < 0.15:
            other = f"not the {self._name}"
            epoch = self._brokers.initialise(other)
            self._brokers.append(other, epoch, self.logs[partition], None, b"")
            self._brokers.end(other, epoch, False)
        if self._epoch is None:
            self._epoch = self._brokers.initialise(self._name)
        try:
            self._brokers.append(self._name, self._epoch, self.logs[partition], None, b"0")
        except FencedError:
            self._epoch = None
        if draws is None or draws.random() < 0.6:
            self.end(draws is None or draws.random() < 0.8)

    def end(self, is_committed: bool) -> None:
        epoch, self._epoch = self._epoch, None
        try:
            if epoch is not None:
                self._brokers.end(self._name, epoch, is_committed)
        except FencedError:
            return

    def written(self, partition: int) -> int:
        """How many records readers see, or may see in the end."""
        transactions = [each.transaction for each in self.logs[partition].records]
        return sum(each is not None and each.is_committed is not False for each in transactions)

    def committed(self, partition: int, end: int) -> int:
        """How many records before an offset readers see."""
        records = self.logs[partition].records[:end]
        return sum(each.transaction is not None and each.transaction.is_committed is True for each in records)


def _kafka_of(world: "Running", draws: Random) -> Kafka:
    def step(what: str) -> None:
        if world.strikes(0.03):
            world.tell(f"dies where it {what}")
            raise Crash(what)

    return replace(world.kafka, step=step, draws=draws, trouble=lambda: 0.003 if world.trouble else 0.0)
