"""Carries out changes of sinks' tables: in the transaction that completes a checkpoint, or outside of it."""

from collections.abc import Sequence

from tidegate.iceberg import catalog
from tidegate.iceberg.places import location_now
from tidegate.iceberg.swapping import Recorded, Swap, Work
from tidegate.ports import CommitAttempt
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.databases import carry_out as carry_out_in_database
from tidegate.postgres_sink.databases import connected


def swap(work: Work, attempt: int | None = None) -> Swap:
    """Write the next metadata of a table. Return the participant that shows it in a transaction. Raise `SinkError`."""
    from tidegate.iceberg.changes import staged

    with connected(None, work.name.target) as connection:
        positions.make(connection)
        catalog.make(connection)
    metadata = staged(work.change, location_now(work.name))
    return Swap(work.name, work.change, metadata, work.occasion, work.checkpoint_id, work.back, attempt)


def carry_out(works: Sequence[Work], attempt: CommitAttempt) -> None:
    """Change tables of one catalog outside of the commit. Raise `SinkError`, `SupersededAttemptError`."""
    if all(work.name.catalog is None for work in works):
        for work in works:
            carry_out_in_database(None, swap(work, attempt.number), work.name.target, attempt)
        return
    from tidegate.iceberg import elsewhere

    for work, released in elsewhere.commit(works, attempt):
        shown = Recorded(work.name, work.checkpoint_id, work.back, attempt.number, released, work.occasion)
        carry_out_in_database(None, shown, work.name.target, attempt)
