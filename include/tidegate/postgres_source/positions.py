"""What a position of a `PostgresSource` says: which transactions were read, and how far the next ones were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.postgres_source.snapshots import NOTHING, Seen

#: A row's place: its transaction, then the columns of the key with their values as text.
Place = tuple[int, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, order=True)
class Cluster:
    """Whose ids of transactions these are: a copy of the files counts on with the same, a copy of the rows does not. A
    standby that was promoted has the next `timeline`."""

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
    """The rows of the transactions that `until` sees and `seen` does not, in the order of their places: those after one
    place, up to another one, including it."""

    seen: Seen
    until: Seen
    after: Place | None = None
    last: Place | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that its places name; none if it has no bounds but transactions."""
        place = self.after or self.last
        return () if place is None else tuple(name for name, _ in place[1])


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table was read.

    Attributes:
        cluster: Where.
        lsn: What a standby must have replayed to have these rows.
        seen: The transactions of which all rows were read.
        rows: The rows that were read since the start.
        until: Those of which it reads the rows now, if that takes several polls.
        after: The place of the last one that was read, of those.
        left: The rows that are left, of those.
        since: What its poll went on from, if that is not what the position before it has seen.
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
        said = {"cluster": str(self.cluster), "lsn": self.lsn, "seen": str(self.seen), "rows": self.rows}
        said |= {} if self.since is None else {"since": str(self.since)}
        if self.until is None or self.after is None:
            return said
        transaction, key = self.after
        after = [str(transaction), [list(column) for column in key]]
        return {**said, "until": str(self.until), "after": after, "left": self.left}

    def part(self, until: Seen, last: Place | None = None) -> Part:
        """What follows, of the transactions that another snapshot sees."""
        return Part(self.seen, self.until or until, self.after, last)

    def to(self, last: Place, until: Seen, rows: int, left: int, lsn: str) -> "Position":
        """After some of them."""
        return replace(self, lsn=lsn, until=until, after=last, rows=self.rows + rows, left=left, since=None)

    def ended(self, until: Seen, rows: int, lsn: str) -> "Position":
        """After all of them."""
        return Position(self.cluster, lsn, until, self.rows + rows)


def parts_between(start: Position | None, end: Position) -> Sequence[Part]:
    """The rows that were read from one position to another one, of whatever number of polls."""
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
