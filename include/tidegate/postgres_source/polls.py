"""Decides where a poll continues, and whether it can, from the database's snapshot."""

from dataclasses import dataclass, replace

from tidegate.postgres_source.positions import Cluster, Position
from tidegate.postgres_source.refusals import Reader
from tidegate.postgres_source.servers import Moment, lsn_number
from tidegate.postgres_source.snapshots import NOTHING, Seen

EARLIEST = "earliest"
_AFTER = " after "


@dataclass(frozen=True, slots=True)
class Start:
    """The position in a cluster at which reading begins: after the transactions in `seen`.

    Attributes:
        cluster: The cluster; None to begin with the first row in any cluster.
        seen: The transactions.
        moved_from: The cluster from which the table was moved, and the transactions read there.
    """

    cluster: Cluster | None = None
    seen: Seen = NOTHING
    moved_from: tuple[Cluster, Seen] | None = None

    @classmethod
    def parse(cls, text: str) -> "Start":
        """Parse `start=`. Raise `ValueError`."""
        if text == EARLIEST:
            return cls()
        here, _, before = text.partition(_AFTER)
        return cls(*_place(here), None if not before else _place(before))


def _place(text: str) -> tuple[Cluster, Seen]:
    cluster, _, seen = text.partition(" ")
    return Cluster.parse(cluster), Seen.parse(seen)


def begin(reader: Reader, position: Position | None, start: Start, now: Moment) -> Position:
    """Return the position to continue from. Raise `SourceChangedError` if its transactions are not of this database,
    `SourceUnavailableError` if a standby does not have them yet."""
    if position is None:
        if start.cluster not in (None, now.cluster):
            raise reader.another_cluster(start.cluster, now, None)
        return Position(now.cluster, now.lsn, start.seen)
    read = position.until or position.seen
    if position.cluster == now.cluster or _is_successor(position, now):
        is_lost = not now.ended.includes(read) or lsn_number(now.lsn) < lsn_number(position.lsn)
        if is_lost and not now.is_standby:
            raise reader.gone_back(position, now)
        return replace(position, cluster=now.cluster)
    if now.cluster.system == position.cluster.system and now.is_standby and now.cluster < position.cluster:
        raise reader.behind()
    if start.cluster == now.cluster and position.cluster.system == now.cluster.system and start.seen.includes(read):
        return replace(position, cluster=now.cluster)
    if start.cluster == now.cluster and start.moved_from == (position.cluster, position.seen) and not position.until:
        return Position(now.cluster, now.lsn, start.seen, position.rows)
    raise reader.another_cluster(position.cluster, now, position)


def _is_successor(position: Position, now: Moment) -> bool:
    """Whether this is the next promoted standby, and had replayed everything that the position has seen."""
    follows = now.cluster == Cluster(position.cluster.system, position.cluster.timeline + 1)
    return follows and now.promoted is not None and lsn_number(now.promoted) >= lsn_number(position.lsn)
