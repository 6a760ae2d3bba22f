"""The position of a `PostgresSource`: the transactions that were read, and the place reached in the next ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.postgres_source.snapshots import NOTHING, Seen

#: A row's place: its transaction, then the columns of the key with their values as text.
Place = tuple[int, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, order=True)
class Cluster:
    """The cluster of a transaction's id. A copy of the database's files goes on counting with the same ids, a copy of
    its rows does not. A promoted standby has the next `timeline`."""

    system: int
    timeline: int

    @classmethod
    def parse(cls, text: str) -> "Cluster":
        system, timeline = text.split("/")
        return cls(int(system), int(timeline))

    def __str__(self) -> str:
        return f"{self.system}/{self.timeline}"


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of the transactions that `until` sees and `seen` does not, in the order of their places. They begin
    after one place and end with another one."""

    seen: Seen
    until: Seen
    after: Place | None = None
    last: Place | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that its places name; none if it is bounded by transactions only."""
        place = self.after or self.last
        return () if place is None else tuple(name for name, _ in place[1])


@dataclass(frozen=True, slots=True)
class Position:
    """The position up to which a table was read.

    Attributes:
        cluster: The cluster.
        lsn: The position in the WAL that a standby must have replayed to have these rows.
        seen: The transactions of which all rows were read.
        rows: The number of rows read since the start.
        until: The transactions whose rows are being read, if that takes several polls.
        after: The place of the last row that was read of those.
        left: The number of rows that are left of those.
        since: The transactions from which its poll continued, if these are not those of the position before it.
    """

    cluster: Cluster
    lsn: str
    seen: Seen
    rows: int = 0
    until: Seen | None = None
    after: Place | None = None
    left: int = 0
    since: Seen | None = None

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "Position":
        after = stored.get("after")
        return cls(
            Cluster.parse(stored["cluster"]),
            stored["lsn"],
            Seen.parse(stored["seen"]),
            stored["rows"],
            Seen.parse(stored["until"]) if "until" in stored else None,
            None if after is None else (int(after[0]), tuple((name, value) for name, value in after[1])),
            stored.get("left", 0),
            Seen.parse(stored["since"]) if "since" in stored else None,
        )

    def stored(self) -> dict[str, Any]:
        content = {"cluster": str(self.cluster), "lsn": self.lsn, "seen": str(self.seen), "rows": self.rows}
        content |= {} if self.since is None else {"since": str(self.since)}
        if self.until is None or self.after is None:
            return content
        transaction, key = self.after
        after = [str(transaction), [list(column) for column in key]]
        return {**content, "until": str(self.until), "after": after, "left": self.left}

    def part(self, until: Seen, last: Place | None = None) -> Part:
        """Return the rows that follow, of the transactions that another snapshot sees."""
        return Part(self.seen, self.until or until, self.after, last)

    def to(self, last: Place, until: Seen, rows: int, left: int, lsn: str) -> "Position":
        """Return the position after some of these rows."""
        return replace(self, lsn=lsn, until=until, after=last, rows=self.rows + rows, left=left, since=None)

    def ended(self, until: Seen, rows: int, lsn: str) -> "Position":
        """Return the position after all of these rows."""
        return Position(self.cluster, lsn, until, self.rows + rows)


def parts_between(start: Position | None, end: Position) -> Sequence[Part]:
    """Return the rows between two positions, which may be any number of polls apart."""
    begin = start or Position(end.cluster, end.lsn, NOTHING)
    if begin.until is not None and (end.until, end.seen) == (begin.until, begin.seen):
        return [Part(begin.seen, begin.until, begin.after, end.after)]
    found = [] if begin.until is None else [Part(begin.seen, begin.until, begin.after)]
    from_ = begin.until or begin.seen
    if from_ != end.seen:
        found.append(Part(from_, end.seen))
    if end.until is not None:
        found.append(Part(end.seen, end.until, None, end.after))
    return found
