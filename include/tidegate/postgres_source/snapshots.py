"""Sets of ended transactions: those that a snapshot of Postgres sees, and those that ended between two snapshots.

Transactions get their ids when they begin to write, and commit in any order. So the largest id that was seen does not
tell which smaller ones have ended. A snapshot does: it sees those below `xmax` that were not `running`.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seen:
    """A set of transactions that have ended: all with an id below `xmax`, except for the `running` ones."""

    xmax: int
    running: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "Seen":
        """Parse a `pg_snapshot`. Raise `ValueError`."""
        xmin, xmax, running = text.split(":")
        found = cls(int(xmax), frozenset(int(each) for each in running.split(",") if each))
        if not int(xmin) <= found.xmin or any(each >= found.xmax for each in found.running):
            raise ValueError(f"{text!r} is not a snapshot")
        return found

    @property
    def xmin(self) -> int:
        return min(self.running, default=self.xmax)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    def has(self, transaction: int) -> bool:
        return transaction < self.xmax and transaction not in self.running

    def includes(self, other: "Seen") -> bool:
        return other.xmax <= self.xmax and all(not other.has(each) for each in self.running)

    def __or__(self, other: "Seen") -> "Seen":
        """Return the transactions of both. A standby may have fewer than were read before."""
        running = {each for each in self.running if not other.has(each)}
        running |= {each for each in other.running if not self.has(each)}
        return Seen(max(self.xmax, other.xmax), frozenset(running))


NOTHING = Seen(0)


@dataclass(frozen=True, slots=True)
class Ended:
    """The transactions that one snapshot sees and an earlier one does not: those that were running then (`late`), and
    those from `low` up to, not including, `high`, without the `running` ones."""

    late: tuple[int, ...]
    low: int
    high: int
    running: tuple[int, ...]


def ended_between(before: Seen, after: Seen) -> Ended:
    """Return the difference of two sets. An index finds its rows, however long a transaction was running."""
    late = _sorted(each for each in before.running if after.has(each))
    running = _sorted(each for each in after.running if each >= before.xmax)
    return Ended(late, before.xmax, max(before.xmax, after.xmax), running)


def _sorted(ids: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(ids))
