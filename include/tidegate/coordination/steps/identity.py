"""Compare a definition with the pipeline that is recorded under its name, and record its new sources and sinks.

`protocol.recovery.identity` decides which definitions are the same pipeline.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.coordination.context import DefinedContext
from tidegate.coordination.observing.audit import UNAUDITED, AuditEntry
from tidegate.coordination.steps.ownership import Ownership
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.errors import PipelineIdentityError
from tidegate.protocol.facts.paths import directory
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.recovery.identity import (
    Moved,
    find_moved,
    find_new,
    require_at_rest,
    require_not_lost,
    require_same,
    stored_elsewhere,
)
from tidegate.protocol.recovery.ownership import Place, refused_places, require_own_places, to_swap, to_take_over
from tidegate.protocol.steps.refusal import Refusal

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class _Checked:
    """`knows_any`: the database has a checkpoint of the pipeline."""

    knows_any: bool
    refusals: list[Refusal]


class Identification:
    """The identity of one pipeline."""

    def __init__(self, context: DefinedContext, ownership: Ownership | None = None) -> None:
        self._context = context
        self._ownership = ownership or Ownership(context)
        self._endpoints = context.graph.endpoints
        self._found: str | None = None  # the newest `_metadata` that this process has read or written here

    def check(self, regains: bool = False) -> None:
        """Check the pipeline's identity and places. Must be called before any work on it. With `regains`, a database
        that does not have the pipeline gets it back, with its places. Raises `PipelineIdentityError`,
        `StorageError`, `SinkError`."""
        checked = self._check_endpoints(lambda tx: self._refused(tx, regains))
        require_own_places(self._context.pipeline_id, checked.refusals)

    def require_stored_here(self) -> None:
        """Require that the pipeline's state is on this process's storage. Copies of a project have the same places
        below their homes, but each has its own checkpoint storage. Raises `PipelineIdentityError`, `StorageError`."""
        self._check_endpoints(lambda _: [])

    def check_to_begin(self) -> None:
        """Call `check` before a checkpoint or region begins. If this database has no checkpoint of the pipeline, its
        checkpoint storage may not have a completed one: the pipeline would read again the rows that its tables show
        already."""
        require_own_places(self._context.pipeline_id, self.find_refusals())

    def find_refusals(self) -> list[Refusal]:
        """Check as `check_to_begin` does, but return the refusals of places that the pipeline's sinks write to."""
        checked = self._check_endpoints(self._refused)
        if not checked.knows_any:
            self.require_not_lost()
        return checked.refusals

    def require_not_lost(self) -> None:
        """Require that the checkpoint storage has no completed checkpoint, when the database has none of the pipeline.
        Raises `PipelineIdentityError`, `StorageError`."""
        try:
            require_not_lost(
                self._context.pipeline_id,
                self._context.storage.list(self._context.pipeline_id),
                self._context.storage.url,
            )
        except PipelineIdentityError:
            if not self._knows_any():  # read again: the first checkpoint may have completed meanwhile
                raise

    def _refused(self, tx: StoreTransaction, regains: bool = False) -> list[Refusal]:
        require_same(self._context.pipeline_id, tx.endpoints(), self._endpoints)
        return self.refused_places(tx, regains)

    def refused_places(self, tx: StoreTransaction, regains: bool = False) -> list[Refusal]:
        """Return the reasons why the pipeline may not write to its sinks' places. Raises `SinkError`,
        `StorageError`."""
        recorded = tx.endpoints()
        places = self._ownership.find(recorded)
        if any(place.is_used for place in places):  # perhaps by the pipeline, before its sinks were recorded
            latest = tx.latest_completed()
            known = set[str]() if latest is None else {plan.operator_id for plan in latest.operators}
            places = [replace(place, is_recorded=place.is_recorded or place.operator_id in known) for place in places]
        return refused_places(places, regains)

    def _check_endpoints(self, find: Callable[[StoreTransaction], list[Refusal]]) -> "_Checked":
        missing = None
        while True:
            with self._context.transaction() as tx:
                refusals = find(tx)
                latest = tx.latest_completed()
            if latest is None:
                return _Checked(self._knows_any(), refusals)
            if latest.metadata_path is None:
                return _Checked(True, refusals)
            path = latest.metadata_path
            if path in self._context.storage.list(directory(self._context.pipeline_id, latest.checkpoint_id)):
                self.found(path)
                return _Checked(True, refusals)
            if path == missing:
                raise stored_elsewhere(self._context.pipeline_id, path, self._context.storage.url)
            missing = (
                path  # read again: a newer checkpoint may have completed, and the files of this one may be deleted
            )

    def found(self, path: str) -> None:
        """Remember that the `_metadata` of a completed checkpoint is on this process's storage."""
        self._found = path

    @property
    def has_checked(self) -> bool:
        """Whether any `_metadata` was found, so that the next may be recognised without a listing."""
        return self._found is not None

    def has_found(self, latest: CheckpointRecord | None) -> bool:
        """Whether the pipeline's newest completed checkpoint is known to be stored here, without a listing."""
        return latest is not None and latest.metadata_path == self._found

    def _knows_any(self) -> bool:
        """Whether the database has any checkpoint. An id that was given out proves nothing."""
        return bool(self._context.store.history(self._context.pipeline_id, 1))

    def require(self, tx: StoreTransaction, regains: bool = False) -> None:
        """Check again in the transaction. If two processes begin at once, the second one finds here the records of the
        first. Raises `PipelineIdentityError`, `SinkError`."""
        require_own_places(self._context.pipeline_id, self._refused(tx, regains))

    def record(self, tx: StoreTransaction, now: datetime, regains: bool = False) -> None:
        """Record new sources and sinks. Called in the transaction that begins a checkpoint or region, after `require`.
        Raises `PipelineIdentityError` if another pipeline has begun there at the same moment, and `SinkError`."""
        recorded = tx.endpoints()
        lost = self._ownership.mark(self._ownership.find(recorded), regains)
        require_own_places(self._context.pipeline_id, refused_places(lost))
        if new := find_new(recorded, self._endpoints):
            tx.record_endpoints(new, now)

    def moved(self, take_over: bool = False) -> list[Moved | Place]:
        """Return the changes that `relocate` would make. Raises as it does."""
        with self._context.transaction() as tx:
            return self._moved(tx, take_over)

    def _moved(self, tx: StoreTransaction, take_over: bool) -> list[Moved | Place]:
        recorded = tx.endpoints()
        moves, places = find_moved(recorded, self._endpoints), self._ownership.find(recorded)
        others = to_take_over(places)
        if not take_over:
            require_own_places(
                self._context.pipeline_id, refused_places([place for place in others if place.owner is not None])
            )
        return [*moves, *(others if take_over else ()), *to_swap(places)]

    def relocate(self, entry: AuditEntry = UNAUDITED, take_over: bool = False) -> list[Moved | Place]:
        """Record moved places as intended, and return them. With `take_over`, places that were another pipeline's also
        become this one's. Raises `PipelineStatusError` while a checkpoint is in progress or its sinks have not
        committed, and `PipelineIdentityError` if the pipeline would move to a place that is another one's."""
        with self._context.transaction() as tx:
            changes = self._moved(tx, take_over)
            now, moved = self._context.clock.now(), [change for change in changes if isinstance(change, Moved)]
            if moved:
                require_at_rest(self._context.pipeline_id, tx.in_progress(), tx.retained())
                tx.record_endpoints([move.defined for move in moved], now)
            if places := [change for change in changes if isinstance(change, Place)]:
                if new := find_new(tx.endpoints(), self._endpoints):
                    tx.record_endpoints(new, now)
                self._ownership.take_over(places)
                tx.reserve_numbers(*self._ownership.numbers(tx), now)
            sentence = "; ".join(map(str, changes)) or "nothing has moved"
            entry.done(tx, now, f"Pipeline {self._context.pipeline_id}: {sentence}.")
        for change in changes:
            log.warning("Pipeline %s was relocated: %s.", self._context.pipeline_id, change)
        return changes
