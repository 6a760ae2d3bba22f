"""Asks a transaction everything it can answer, to compare what it knows of its own writes with what is on record."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.ports import CheckpointStore, Prefetch, StoreTransaction


def facts_of(tx: StoreTransaction) -> dict[str, object]:
    return {
        "pipeline": tx.pipeline(),
        "region": tx.region(),
        "committer": tx.committer(),
        "last": tx.last_checkpoint_id(),
        "in progress": tx.in_progress(),
        "latest": tx.latest_completed(),
        "unnotified": tx.unnotified(),
        "retained": tx.retained(),
        "abandoned": tx.abandoned(),
        "cleaning": tx.cleaning(),
        "endpoints": tx.endpoints(),
        "requests": tx.requests(),
        "restores": tx.restores(),
        "imports": tx.imports(),
        "compactions": tx.compactions(),
        "asked": [tx.latest_by_request(f"r{number}") for number in range(6)],
        "named": [tx.checkpoint(number) for number in range(6)],
        "subtasks": [tx.subtasks(number) for number in range(6)],
        "verdicts": [tx.verdicts(number) for number in range(6)],
        "unswept": tx.unswept(),
        "pending": tx.pending_deletions(100),
    }


class Compared:
    """A store that finds out, after each transaction, whether it knew what it had written."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.compared = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Any = ()
    ) -> Iterator[StoreTransaction]:
        with self._store.transaction(pipeline_id, prefetch, participants) as tx:
            yield tx
            known = facts_of(tx)
        with self._store.transaction(pipeline_id) as tx:
            assert facts_of(tx) == known
        self.compared += 1
