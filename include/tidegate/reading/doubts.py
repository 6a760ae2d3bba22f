"""Completed checkpoints that not every table shows yet."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from tidegate.postgres import reads
from tidegate.protocol.facts.branches import find_unfinished
from tidegate.protocol.observing.doubts import Doubt, DoubtFacts, find_doubts
from tidegate.reading.pipeline_answers import DoubtAt

_MOST = 1000

# Each is one step in a partial index or in a primary key.
_PIPELINES = text("""
SELECT pipeline_id FROM tidegate.checkpoints
WHERE completed_at IS NOT NULL AND notified_at IS NULL AND abandoned_by IS NULL
UNION
SELECT pipeline_id FROM tidegate.pipelines p JOIN tidegate.restores r USING (pipeline_id)
WHERE r.number = p.last_restore AND r.rewound_at IS NULL
ORDER BY pipeline_id
""")


def all_doubts(connection: Connection, now: datetime) -> tuple[DoubtAt, ...]:
    """See `Readings.doubts`."""
    ids = connection.execute(_PIPELINES).scalars().all()
    return tuple(doubt for pipeline_id in ids for doubt in doubts_of(connection, pipeline_id, now))


def doubts_of(connection: Connection, pipeline_id: str, now: datetime) -> tuple[DoubtAt, ...]:
    """See `Readings.doubts`."""
    restores = reads.restores_of(connection, pipeline_id)
    restore = find_unfinished(restores)
    facts = DoubtFacts(
        pipeline_id,
        reads.unnotified(connection, pipeline_id, _MOST),
        restores,
        None if restore is None else reads.checkpoint(connection, pipeline_id, restore.goes_on_from),
        reads.newest_notified(connection, pipeline_id),
        reads.committer(connection, pipeline_id),
    )
    return tuple(_answers(pipeline_id, find_doubts(facts, now), now))


def _answers(pipeline_id: str, found: Sequence[Doubt], now: datetime) -> Sequence[DoubtAt]:
    return [
        DoubtAt(
            pipeline_id=pipeline_id,
            checkpoint_id=doubt.checkpoint_id,
            restore=doubt.restore,
            since=doubt.since,
            duration=max(0, (now - doubt.since) // timedelta(milliseconds=1)),
            reason=doubt.reason,
            sinks=doubt.sinks,
            problem=doubt.problem,
            why=doubt.why,
            readers=doubt.readers,
            advice=doubt.advice,
        )
        for doubt in found
    ]
