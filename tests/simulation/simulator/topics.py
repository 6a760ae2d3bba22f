"""What one sink of a simulated pipeline writes to a topic, by `tidegate.kafka.transactions` itself, and what must hold
of it: readers see each checkpoint that was delivered whole, once, and none that has not completed. What they have seen
stays.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulator.brokers import Record, Transaction
from simulator.kafka import Kafka
from simulator.scheduler import require
from tidegate.kafka import markers, transactions
from tidegate.kafka.markers import TOPIC, Marker, Slot
from tidegate.kafka.sink_refusals import forward, outside
from tidegate.kafka.transactions import Produced, Work, take_slot
from tidegate.ports import CommitAttempt
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.recovery.ownership import Owner
from tidegate.protocol.steps.committing import CommitterRecord, is_committing

CHECKPOINT = "checkpoint"
#: What an error of a sink says if brokers have given no answer, or too late, or have ended what took too long.
_OF_BROKERS = (
    "_TIMED_OUT",
    "of another producer is open",
    "could not be read to its end in time",
    "have ended the transaction",
)


class Topic:
    """The topic of one sink. The witness alone reads `committer`: what the database knows of attempts. With
    `upserts`, a row whose value is 0 becomes a tombstone."""

    def __init__(
        self,
        kafka: Kafka,
        slot: Slot,
        partitions: int,
        committer: Callable[[], CommitterRecord],
        upserts: bool = False,
    ) -> None:
        self.kafka, self.slot, self.committer, self.upserts = kafka, slot, committer, upserts
        self.logs = kafka.brokers.topic(slot.topic, partitions)
        self.found: dict[int, Transaction] = {}  # by checkpoint, that which brought its rows
        self._read_up_to = 0

    # -- what a sink does

    def take(self, owner: Owner, anew: bool = False) -> None:
        kafka: Any = self.kafka.quietly()
        take_slot(kafka, TOPIC, self.slot, owner, anew, outside(kafka.connection, self.slot.topic))

    def work(self, checkpoint_id: int, rows: Callable[[], Iterator[Any]], number: int) -> Work:
        headers: list[tuple[str, bytes | None]] = [(CHECKPOINT, str(checkpoint_id).encode())]

        def made(row: Any) -> Produced:
            is_gone = self.upserts and row[1] == 0
            return Produced(str(row[0]).encode(), None if is_gone else json.dumps(row).encode(), headers)

        return Work(self.slot, number, lambda: map(made, rows()))

    def commit(self, works: Sequence[Work], checkpoint_id: int, attempt: CommitAttempt, always: bool = False) -> None:
        """For all topics of the pipeline. `always`: also the marks alone, where there are no rows."""
        is_newest = lambda: is_committing(self.committer(), attempt.number)  # noqa: E731
        kafka: Any = replace(self.kafka, is_newest=is_newest)
        if always or any(work.rows for work in works):
            refusals = forward(kafka.connection, [work.slot.topic for work in works], checkpoint_id)
            try:
                transactions.carry_out(kafka, TOPIC, works, checkpoint_id, attempt, refusals)
            except SinkError as error:
                require(
                    is_of_brokers(error), f"a sink gives up for another reason than brokers that do not answer: {error}"
                )
                raise

    # -- what must hold

    def read_committed(self, promised: Mapping[int, Sequence[Any]]) -> None:
        """At what has been committed since the last look."""
        ended = self.kafka.brokers.ended
        for each in ended[self._read_up_to :]:
            ids = {
                int(record.headers[CHECKPOINT]) for log, record in each.records if log in self.logs and record.headers
            }
            marks = [Marker.parse(record.value) for _, record in each.records if record.key == self.slot.key]
            require(len(ids) < 2, f"{self.slot.topic} has checkpoints {ids} in one transaction")
            for id_ in ids:
                require(id_ not in self.found, f"{self.slot.topic} has checkpoint {id_} twice")
                self.found[id_] = each
                had = [
                    [known for known, rows in sorted(promised.items()) if rows and mark.has(known)] for mark in marks
                ]
                require(had == [sorted(self.found)], f"{self.slot.topic} has {[*self.found]}, and the marks {marks}")
                same = self.kafka.whole.setdefault((self.slot.pipeline, id_), each) is each
                require(same, f"{self.slot.topic} has checkpoint {id_} in another transaction than other topics")
        self._read_up_to = len(ended)

    def rows_of(self, checkpoint_id: int) -> list[Any]:
        records = self.found[checkpoint_id].records if checkpoint_id in self.found else []
        return sorted(_row(record) for log, record in records if log in self.logs)

    def marked(self) -> int | None:
        """The newest checkpoint that the sink's mark has."""
        kafka: Any = self.kafka.quietly()
        marker = markers.read(kafka, TOPIC, outside(kafka.connection, self.slot.topic)).of(self.slot)
        return None if marker is None else marker.checkpoint_id

    def table(self) -> dict[int, int]:
        """What a committed reader has who keeps the last record of each key."""
        self.kafka.brokers.expire()
        rows = [_row(each) for log in self.logs for each in log.committed(0, log.high) if each.headers]
        return {key: value for key, value in dict(rows).items() if value != 0}

    def visible(self, branch: Collection[int]) -> list[Any]:
        """What committed readers get of some checkpoints."""
        self.kafka.brokers.expire()
        records = [record for log in self.logs for record in log.committed(0, log.high) if record.headers]
        return sorted(tuple(json.loads(r.value)) for r in records if int(r.headers[CHECKPOINT]) in branch)

    def check(self, promised: Mapping[int, Sequence[Any]], delivered: Collection[int]) -> None:
        """`promised`: by completed checkpoint, its rows. `delivered`: those of which the sink has said that it shows
        them."""
        known = len(self.found)
        self.read_committed(promised)
        for id_ in [*self.found][known:]:
            require(id_ in promised, f"{self.slot.topic} has checkpoint {id_}, which has not completed")
            rows, expected = self.rows_of(id_), sorted(promised[id_])
            require(rows == expected, f"{self.slot.topic} has {rows} of checkpoint {id_} instead of {expected}")
        missing = {id_ for id_ in delivered if promised.get(id_)} - self.found.keys()
        require(not missing, f"{self.slot.topic} lacks checkpoints {missing}, which count as delivered")


def _row(record: Record) -> tuple[Any, ...]:
    """A tombstone is a row whose value is 0."""
    return (int(record.key), 0) if record.value is None else tuple(json.loads(record.value))


def is_of_brokers(error: BaseException | None) -> bool:
    """Whether a sink has failed by what brokers do. With that, nothing is lost."""
    return isinstance(error, SinkError) and any(each in str(error) for each in _OF_BROKERS)
