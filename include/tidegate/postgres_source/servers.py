"""The identity of the database, and the transactions that have ended there."""

from dataclasses import dataclass

from sqlalchemy import Connection, text

from tidegate.postgres_source.positions import Cluster
from tidegate.postgres_source.snapshots import Seen

#: A standby's snapshot lists no running transactions, so that it seems to see them. The timeline of a promoted standby
#: is in the names of the files that it writes; the control file has it only after a while.
_NOW = text("""
SELECT pg_is_in_recovery() AS standby, pg_current_snapshot()::text AS snapshot,
    (SELECT system_identifier FROM pg_control_system()) AS system,
    CASE WHEN pg_is_in_recovery() THEN (SELECT min_recovery_end_timeline FROM pg_control_recovery())::text
        ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END AS timeline,
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END::text AS lsn,
    CASE WHEN NOT pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END::text AS promoted
""")


@dataclass(frozen=True, slots=True)
class Moment:
    """The snapshot of a transaction.

    Attributes:
        cluster: The cluster where it was taken.
        is_standby: Whether that is a standby.
        ended: The transactions that are known to have ended.
        xmax: The first id of which no transaction had ended.
        lsn: The position in the WAL that a standby must have replayed to see their rows.
        promoted: The position that this server had replayed when it was promoted; None if it was not, or no longer
            knows.
    """

    cluster: Cluster
    is_standby: bool
    ended: Seen
    xmax: int
    lsn: str
    promoted: str | None


def moment(connection: Connection) -> Moment:
    """Return the snapshot of a connection's transaction."""
    row = connection.execute(_NOW).one()
    snapshot = Seen.parse(row.snapshot)
    timeline = int(row.timeline, 10 if row.standby else 16)
    ended = Seen(int(row.snapshot.partition(":")[0])) if row.standby else snapshot
    return Moment(Cluster(row.system, timeline), row.standby, ended, snapshot.xmax, row.lsn, row.promoted)


def lsn_number(lsn: str) -> int:
    high, low = lsn.split("/")
    return (int(high, 16) << 32) + int(low, 16)
