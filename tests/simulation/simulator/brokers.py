"""Kafka's rules for topics and transactions, in memory.

Under a transactional id the last one to initialise writes, and nobody else. Rows of a transaction are there at once,
and committed readers see none of them, nor anything behind them, until it has ended: by its writer, by the next one to
initialise, or after a time limit. What ends it takes an offset, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

TIME_LIMIT = timedelta(minutes=1)  # of a transaction


class FencedError(Exception):
    """Another one has initialised since, or the transaction took too long."""


@dataclass(eq=False)
class Transaction:
    """`is_committed`: None while it is open."""

    began_at: datetime
    is_committed: bool | None = None
    records: list[tuple["Log", "Record"]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Record:
    """`transaction` of a row; what ends one has none, and nobody is shown it."""

    transaction: Transaction | None
    key: Any = None
    value: Any = None
    headers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(eq=False)
class Log:
    """One partition. `first`: the first offset that retention has left."""

    records: list[Record] = field(default_factory=list)
    first: int = 0

    @property
    def high(self) -> int:
        """The high watermark."""
        return len(self.records)

    @property
    def stable(self) -> int:
        """The last stable offset: nothing from there on is shown to committed readers."""
        opened = (at for at, each in enumerate(self.records) if each.transaction and _is_open(each.transaction))
        return next(opened, self.high)

    def committed(self, first: int, end: int) -> list[Record]:
        """What a committed reader of a range gets."""
        upto = min(end, self.stable)
        found = self.records[max(first, self.first) : upto]
        return [each for each in found if each.transaction is not None and each.transaction.is_committed]


class Brokers:
    """The topics of one simulated run."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.topics: dict[str, list[Log]] = {}
        self.ended: list[Transaction] = []  # those that have committed, in order
        self._epochs: dict[str, int] = {}
        self._open: dict[str, Transaction] = {}

    def topic(self, name: str, partitions: int = 1) -> list[Log]:
        logs = self.topics.setdefault(name, [])
        logs += [Log() for _ in range(partitions - len(logs))]
        return logs

    def initialise(self, name: str) -> int:
        """Returns the epoch, which is needed to write."""
        self._end(name, False)
        self._epochs[name] = self._epochs.get(name, 0) + 1
        return self._epochs[name]

    def append(
        self, name: str, epoch: int, log: Log, key: Any, value: Any, headers: Mapping[str, bytes] | None = None
    ) -> None:
        self._require(name, epoch)
        transaction = self._open.setdefault(name, Transaction(self._now()))
        record = Record(transaction, key, value, headers or {})
        transaction.records.append((log, record))
        log.records.append(record)

    def end(self, name: str, epoch: int, is_committed: bool) -> None:
        """Once more, it changes nothing."""
        self._require(name, epoch)
        self._end(name, is_committed)

    def _require(self, name: str, epoch: int) -> None:
        self.expire()
        if self._epochs.get(name) != epoch:
            raise FencedError(f"epoch {epoch} of {name} is not {self._epochs.get(name)}")

    def expire(self) -> None:
        """Who had begun a transaction too long ago is fenced."""
        late = [name for name, each in self._open.items() if self._now() - each.began_at > TIME_LIMIT]
        for name in late:
            self.initialise(name)

    def _end(self, name: str, is_committed: bool) -> None:
        transaction = self._open.pop(name, None)
        if transaction is None:
            return
        transaction.is_committed = is_committed
        self.ended += [transaction] * is_committed
        for log in dict.fromkeys(log for log, _ in transaction.records):
            log.records.append(Record(None))


def _is_open(transaction: Transaction) -> bool:
    return transaction.is_committed is None
