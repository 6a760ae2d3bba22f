"""Delete the files in the queue of deletions. Without the pipeline's sinks, this deletes files on checkpoint storage
and in directories of savepoints. Staged files wait for a process that has the definition."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegate.coordination.context import PipelineContext
from tidegate.ports import ReferencingSink, Sink, StoreTransaction
from tidegate.protocol.cleaning.closed_directories import choose_closed, closed_for_ever
from tidegate.protocol.continuous.regions import RegionRecord
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.names import STORAGE, location_of
from tidegate.protocol.facts.paths import with_markers
from tidegate.protocol.facts.records import Deletion
from tidegate.protocol.recovery.canonical import PARTS

log = logging.getLogger("tidegate")

BATCH = 1000  # files that are deleted before their deletion is recorded
#: Queued files read at once. Finding the live ones reads every live reference each time.
ASKED = 100 * BATCH


@dataclass(frozen=True, slots=True)
class Queue:
    """The contents of the queue, and the places where a process may be writing, as of one transaction. `for_ever` are
    directories of a cancelled pipeline."""

    queued: Sequence[Deletion]
    going: Collection[int]
    region: RegionRecord
    for_ever: set[str]

    @property
    def has_more(self) -> bool:
        """Whether the queue may hold more than this."""
        return len(self.queued) >= ASKED


class QueuedDeletions:
    """The queue of one pipeline. `sinks` are those whose directories are the pipeline's, by the owner of their staged
    files, as far as they are known."""

    def __init__(self, context: PipelineContext, sinks: Callable[[], Mapping[str, Sink]]) -> None:
        self._context = context
        self._sinks = sinks

    def read(self, tx: StoreTransaction) -> Queue:
        in_progress = [record.checkpoint_id for record in tx.in_progress()]
        return Queue(tx.pending_deletions(ASKED), in_progress, tx.region(), closed_for_ever(tx.pipeline()))

    def queued(self, tx: StoreTransaction) -> list[Deletion]:
        """Return the files that `delete_queued` would take from the queue first."""
        return self._deletable(tx.pending_deletions(ASKED))

    def _deletable(self, queued: Sequence[Deletion]) -> list[Deletion]:
        """Return the files to delete, without those of sinks that the definition no longer has, or in directories of
        others."""
        sinks = self._sinks()
        return [deletion for deletion in queued if deletion.owner == STORAGE or deletion.owner in sinks]

    def delete_queued(self) -> None:
        """Delete the queued files. An entry leaves the queue after its file is gone. The directories of a cancelled
        pipeline are removed too."""
        while True:
            with self._context.transaction() as tx:
                queue = self.read(tx)
            if gone := self.carry_out(queue):
                with self._context.transaction() as tx:
                    self.record(tx, gone)
            if not queue.has_more:
                return

    def carry_out(self, queue: Queue) -> list[Deletion]:
        """Delete the queued files. Return the last batch, which the caller has to record. Earlier batches are recorded
        here."""
        self._delete_savepoints(queue.queued)
        deletable = self._deletable(queue.queued)
        batches = [deletable[first : first + BATCH] for first in range(0, len(deletable), BATCH)]
        for batch in batches:
            stored = [deletion.path for deletion in batch if deletion.owner == STORAGE]
            self.delete(batch, choose_closed(self._context.pipeline_id, stored, queue.going, queue.region))
            if batch is not batches[-1]:
                with self._context.transaction() as tx:
                    tx.remove_deletions(batch)
        if not queue.has_more:
            self.delete([], queue.for_ever)
        return batches[-1] if batches else []

    def record(self, tx: StoreTransaction, gone: Sequence[Deletion]) -> None:
        """Record that the last batch is deleted."""
        tx.mark_discarded(gone)

    def _delete_savepoints(self, queued: Sequence[Deletion]) -> None:
        """Delete files in savepoints' directories. A directory that cannot be reached is retried later, and delays no
        other."""
        by_location: dict[str, list[Deletion]] = {}
        for deletion in queued:
            if (location := location_of(deletion.owner)) is not None:
                by_location.setdefault(location, []).append(deletion)
        for location, deletions in by_location.items():
            try:
                self._context.storage.elsewhere(location).delete([deletion.path for deletion in deletions], PARTS)
            except CheckpointError as error:
                log.warning("The savepoint in %s is deleted later: %s", location, error)
                continue
            with self._context.transaction() as tx:
                tx.remove_deletions(deletions)

    def delete(self, deletions: Sequence[Deletion], closed: set[str]) -> None:
        by_owner: dict[str, list[str]] = {STORAGE: []} if closed else {}
        for deletion in deletions:
            by_owner.setdefault(deletion.owner, []).append(deletion.path)
        sinks = self._sinks() if by_owner.keys() - {STORAGE} else {}
        for owner, paths in by_owner.items():
            if owner == STORAGE:
                self._context.storage.delete(with_markers(paths), closed)
            elif owner in sinks:  # else its directory was taken over by another pipeline since it was read
                sinks[owner].discard(find_unreferenced(sinks[owner], paths))

    def without_referenced(self, files: Sequence[Deletion]) -> list[Deletion]:
        """Return the files that `delete` would delete, without those that are part of a sink's table by now."""
        sinks, staged = self._sinks(), dict[str, list[str]]()
        for file in files:
            staged.setdefault(file.owner, []).append(file.path)
        unreferenced = {
            Deletion(owner, path)
            for owner, paths in staged.items()
            for path in (find_unreferenced(sinks[owner], paths) if owner in sinks else paths)
        }
        return [file for file in files if file in unreferenced]


def find_unreferenced(sink: Sink, paths: Sequence[str]) -> list[str]:
    """Return the staged files without those that the sink has taken over, which readers see."""
    taken = set(sink.referenced(paths)) if isinstance(sink, ReferencingSink) else ()
    return [path for path in paths if path not in taken]
