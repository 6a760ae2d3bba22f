"""Deletes what the queue of deletions holds. Without the pipeline's sinks it deletes what is on checkpoint storage and
in directories of savepoints; what sinks have staged waits for somebody who has the definition."""

import logging
from collections.abc import Mapping, Sequence

from tidegate.ports import CheckpointStorage, CheckpointStore, Sink, StoreTransaction
from tidegate.protocol.canonical import PARTS
from tidegate.protocol.directories import choose_closed, closed_for_ever
from tidegate.protocol.errors import CheckpointError
from tidegate.protocol.names import STORAGE, location_of
from tidegate.protocol.paths import with_markers
from tidegate.protocol.records import Deletion

log = logging.getLogger("tidegate")

BATCH = 1000  # files that are deleted before their deletion is recorded
#: Queued files asked for at once: to find out which of them are live, every live reference is read each time.
ASKED = 100 * BATCH


class QueuedDeletions:
    """The queue of one pipeline. `sinks` by the owner of what they have staged, as far as they are known."""

    def __init__(
        self, pipeline_id: str, store: CheckpointStore, storage: CheckpointStorage, sinks: Mapping[str, Sink]
    ) -> None:
        self._pipeline_id = pipeline_id
        self._store = store
        self._storage = storage
        self._sinks = sinks

    def queued(self, tx: StoreTransaction) -> list[Deletion]:
        """What `delete_queued` would delete first."""
        return self._deletable(tx.pending_deletions(ASKED))

    def _deletable(self, queued: Sequence[Deletion]) -> list[Deletion]:
        """Without what was staged by sinks that the definition no longer has."""
        return [deletion for deletion in queued if deletion.owner == STORAGE or deletion.owner in self._sinks]

    def delete_queued(self) -> None:
        """Delete what the queue holds; an entry leaves the queue after its file is gone. If the pipeline was cancelled,
        remove its directories too."""
        while True:
            with self._store.transaction(self._pipeline_id) as tx:
                queued = tx.pending_deletions(ASKED)
                going, region = [record.checkpoint_id for record in tx.in_progress()], tx.region()
                for_ever = closed_for_ever(tx.pipeline())
            self._delete_savepoints(queued)
            mine = self._deletable(queued)
            for first in range(0, len(mine), BATCH):
                batch = mine[first : first + BATCH]
                stored = [deletion.path for deletion in batch if deletion.owner == STORAGE]
                self.delete(batch, choose_closed(self._pipeline_id, stored, going, region))
                with self._store.transaction(self._pipeline_id) as tx:
                    tx.remove_deletions(batch)
                    if batch[-1] is mine[-1]:
                        tx.mark_discarded()
            if not mine or len(queued) < ASKED:
                self.delete([], for_ever)
                return

    def _delete_savepoints(self, queued: Sequence[Deletion]) -> None:
        """In directories of their own. One that cannot be reached waits, and holds up nothing else."""
        by_location: dict[str, list[Deletion]] = {}
        for deletion in queued:
            if (location := location_of(deletion.owner)) is not None:
                by_location.setdefault(location, []).append(deletion)
        for location, deletions in by_location.items():
            try:
                self._storage.elsewhere(location).delete([deletion.path for deletion in deletions], PARTS)
            except CheckpointError as error:
                log.warning("The savepoint in %s is deleted later: %s", location, error)
                continue
            with self._store.transaction(self._pipeline_id) as tx:
                tx.remove_deletions(deletions)

    def delete(self, deletions: Sequence[Deletion], closed: set[str]) -> None:
        by_owner: dict[str, list[str]] = {STORAGE: []} if closed else {}
        for deletion in deletions:
            by_owner.setdefault(deletion.owner, []).append(deletion.path)
        for owner, paths in by_owner.items():
            if owner == STORAGE:
                self._storage.delete(with_markers(paths), closed)
            else:
                self._sinks[owner].discard(paths)
