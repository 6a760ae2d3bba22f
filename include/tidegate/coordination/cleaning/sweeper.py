"""Delete garbage: files of crashed and superseded attempts, and files whose last reference is gone.

The order is always the same: list the files, then read in a transaction which are live, then delete the rest. An
ended checkpoint can gain no new reference, so no listed file can become live in between. Nor can a file of an
ended region: its checkpoints were aborted with it, and its successor reads only files of completed ones.

Each run sweeps where an attempt may have left something recently. `tidegate clean` also sweeps everywhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tidegate.coordination.cleaning.deletion_queue import BATCH, Queue, QueuedDeletions
from tidegate.coordination.cleaning.rollup import HistoryRollup
from tidegate.coordination.context import DefinedContext
from tidegate.coordination.steps.ownership import Ownership
from tidegate.ports import StagingSink, StoreTransaction
from tidegate.protocol.cleaning.closed_directories import choose_closed, choose_unswept
from tidegate.protocol.cleaning.leftovers import (
    Leftovers,
    Listed,
    checkpoints_of,
    choose_left,
    find_foreign,
    listed_on_storage,
)
from tidegate.protocol.cleaning.retention import choose_subsumed, choose_unreferenced, is_due, is_settled
from tidegate.protocol.continuous.regions import RegionRecord, choose_left_behind, last_ended, left_since
from tidegate.protocol.facts.branches import choose_overdue_abandoned
from tidegate.protocol.facts.names import STORAGE
from tidegate.protocol.facts.paths import ByCheckpoint, directory, shared_root
from tidegate.protocol.facts.records import Deletion
from tidegate.protocol.recovery.imports import choose_ahead, choose_stale


@dataclass(frozen=True, slots=True)
class Expired:
    """Checkpoints past their retention, and imports that no process continues. The sign of life of imports in `ahead`
    is in the future."""

    checkpoints: Sequence[int]
    imports: Sequence[int]
    ahead: Sequence[int] = ()

    def __bool__(self) -> bool:
        return bool(self.checkpoints or self.imports)


@dataclass(frozen=True, slots=True)
class Garbage:
    """Places to sweep, as of one transaction. `unswept` are checkpoints and when each ended."""

    unswept: Mapping[int, datetime]
    region: RegionRecord
    queue: Queue


@dataclass(frozen=True, slots=True)
class Cleared:
    """The result of a sweep that is still to be recorded in a transaction. `found` are files, of which the transaction
    reads which are live. `settled` are the directories that need no further sweep. `gone` are deleted files of the
    queue."""

    found: Mapping[int, Sequence[Deletion]]
    settled: Sequence[int]
    gone: Sequence[Deletion]

    def __bool__(self) -> bool:
        return bool(self.found or self.settled or self.gone)


#: The files to delete of each checkpoint's directories, once the transaction that found them has ended.
Unreferenced = Mapping[int, Sequence[Deletion]]


class Sweeper:
    """Clean up after one pipeline. Safe to run in several processes at once: deleting twice is harmless."""

    def __init__(self, context: DefinedContext, ownership: Ownership) -> None:
        self._context = context
        self._rule = context.config.retention_rule()
        self._swept: dict[int, datetime] = {}  # when this process last swept a checkpoint's directories
        self._swept_after: dict[int, datetime] = {}  # when it last swept files of region attempts, by the last of them
        self._own_sinks = ownership.own_sinks
        self.rollup = HistoryRollup(context, context.config.history_rule())
        self.deletions = QueuedDeletions(context, ownership.own_sinks)

    def clean(self) -> None:
        """Delete the files of ended checkpoints and regions in their directories and staging areas, unless something
        live refers to them, and the queued files. Checkpoints past their retention are ended, and so are abandoned
        ones that an undo can no longer bring back."""
        while True:
            with self._context.transaction() as tx:
                garbage = self.find_garbage(tx)
            if cleared := self.delete(garbage):
                with self._context.transaction() as tx:
                    left = self.record(tx, cleared)
                self.delete_left(left)
            if not garbage.queue.has_more:
                return

    def find_garbage(self, tx: StoreTransaction) -> Garbage:
        """Read the garbage. This is the first step of a cleaning, whose steps others take within their own
        transactions."""
        expired, now = self.find_expired(tx), self._context.clock.now()
        if expired.checkpoints:
            tx.subsume(expired.checkpoints)
        for stale in expired.imports:
            tx.end_import(stale, now)
        for ahead in expired.ahead:
            tx.touch_import(ahead, now)
        self.rollup.check(tx)
        queue = self.deletions.read(tx)  # a store reads it together with the following
        return Garbage(tx.unswept(), tx.region(), queue)

    def find_expired(self, tx: StoreTransaction) -> Expired:
        """Return the checkpoints and imports that `find_garbage` would end first. Reads only."""
        now, imports = self._context.clock.now(), tx.imports()
        overdue = choose_overdue_abandoned(tx.abandoned(), tx.restores(), self._rule.undo_within, now)
        subsumed = choose_subsumed(tx.retained(), self._rule, now)
        return Expired([*subsumed, *overdue], choose_stale(imports, now), choose_ahead(imports, now))

    def count(self, garbage: Garbage) -> int:
        """Return the number of files and directories that `delete` would handle."""
        return len(garbage.queue.queued) + len(self._due(garbage.unswept))

    def delete(self, garbage: Garbage) -> Cleared:
        """Sweep directories, and delete queued files. This is the second step."""
        found, settled = self._list(garbage.unswept)
        self._sweep_regions(garbage.region)
        return Cleared(found, settled, self.deletions.carry_out(garbage.queue))

    def record(self, tx: StoreTransaction, cleared: Cleared) -> Unreferenced:
        """Record the result. This is the third step. The last step, `delete_left`, deletes the returned files."""
        live = tx.live_paths(*cleared.found)
        tx.mark_swept(cleared.settled)
        if cleared.gone:
            self.deletions.record(tx, cleared.gone)
        return {id_: choose_unreferenced(files, live) for id_, files in cleared.found.items()}

    def delete_left(self, left: Unreferenced) -> None:
        for checkpoint_id, files in left.items():
            self.deletions.delete(files, {directory(self._context.pipeline_id, checkpoint_id)})
        self._swept |= dict.fromkeys(left, self._context.clock.now())

    def _list(self, unswept: Mapping[int, datetime]) -> tuple[dict[int, list[Deletion]], list[int]]:
        """Return the files in the directories that are due, and the directories that need no further sweep, which are
        emptied first. No directory is settled while a sink's directory is another pipeline's, because an import into
        a new database stages files before it takes over."""
        now, due = self._context.clock.now(), self._due(unswept)
        all_own = bool(due) and len(self._own_sinks()) == len(self._context.graph.sinks)
        found = {checkpoint_id: self._found(checkpoint_id) for checkpoint_id in due}
        self._swept = {key: at for key, at in self._swept.items() if key in unswept}
        self._swept |= {key: now for key, files in found.items() if not files}
        settled = {key: found.pop(key) for key in due if all_own and is_settled(unswept[key], now)}
        live: set[Deletion] = set()
        if any(settled.values()):
            with self._context.transaction() as tx:
                live = tx.live_paths(*settled)
        self.delete_left({id_: choose_unreferenced(files, live) for id_, files in settled.items()})
        return {checkpoint_id: files for checkpoint_id, files in found.items() if files}, list(settled)

    def _due(self, unswept: Mapping[int, datetime]) -> list[int]:
        now = self._context.clock.now()
        return [key for key, ended_at in unswept.items() if is_due(ended_at, self._swept.get(key), now)]

    def _sweep_regions(self, region: RegionRecord) -> None:
        """Sweep the directories of all ended attempts at once, for a while after the last of them ended."""
        now, since, up_to = self._context.clock.now(), left_since(region), last_ended(region)
        if since is None or not is_due(since, self._swept_after.get(up_to), now):
            return
        root = shared_root(self._context.pipeline_id)
        if found := choose_left_behind(self._context.pipeline_id, self._context.storage.list(root), up_to):
            with self._context.transaction() as tx:
                live = tx.live_below(root)
            closed = choose_closed(self._context.pipeline_id, [deletion.path for deletion in found], (), region)
            self.deletions.delete(choose_unreferenced(found, live), closed)
        self._swept_after = {up_to: now}
        if is_settled(since, now):
            self.deletions.delete([], choose_unswept(self._context.pipeline_id, region))
            with self._context.transaction() as tx:
                tx.mark_regions_swept(up_to)

    def find_leftovers(self) -> Leftovers:
        """Return all unreferenced files, including those in places that `sweep` no longer lists. Changes nothing."""
        listed = listed_on_storage(self._context.pipeline_id, self._context.storage.list(self._context.pipeline_id))
        for owner, sink in self._own_sinks().items():
            for id_ in sink.staged_checkpoints() if isinstance(sink, StagingSink) else ():
                listed += [Listed(Deletion(owner, path), ByCheckpoint(id_)) for path in sink.staged_paths(id_)]
        with self._context.transaction() as tx:
            known = {id_: tx.checkpoint(id_) for id_ in checkpoints_of(listed)}
            leftovers = choose_left(
                listed, known, tx.latest_completed(), tx.region(), tx.imports(), self._context.clock.now()
            )
            staged = checkpoints_of(listing for listing in leftovers if listing.file.owner != STORAGE)
            live = tx.live_below(self._context.pipeline_id) | tx.live_paths(*staged)
        files = choose_unreferenced([listing.file for listing in leftovers], live)
        return Leftovers(self.deletions.without_referenced(files), find_foreign(listed, known))

    def delete_leftovers(self) -> None:
        """Delete the current result of `find_leftovers`."""
        found = self.find_leftovers().files
        with self._context.transaction() as tx:
            in_progress, region = [record.checkpoint_id for record in tx.in_progress()], tx.region()
        for first in range(0, len(found), BATCH):
            batch = found[first : first + BATCH]
            stored = [deletion.path for deletion in batch if deletion.owner == STORAGE]
            self.deletions.delete(batch, choose_closed(self._context.pipeline_id, stored, in_progress, region))

    def _found(self, checkpoint_id: int) -> list[Deletion]:
        paths = self._context.storage.list(directory(self._context.pipeline_id, checkpoint_id))
        found = [Deletion(STORAGE, path) for path in paths]
        for owner, sink in self._own_sinks().items():
            found += [Deletion(owner, path) for path in sink.staged_paths(checkpoint_id)]
        return found
