"""Compares a definition with the pipeline that is recorded under its name, and records what is new about it.

`protocol.identity` decides what counts as the same.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from tidegate.coordination.audit import UNASKED, Deed
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock, StoreTransaction
from tidegate.protocol.errors import PipelineIdentityError
from tidegate.protocol.identity import (
    Moved,
    find_moved,
    find_new,
    require_at_rest,
    require_not_lost,
    require_same,
    stored_elsewhere,
)
from tidegate.protocol.paths import directory
from tidegate.protocol.records import CheckpointRecord

log = logging.getLogger("tidegate")


class Identification:
    """The identity of one pipeline."""

    def __init__(self, graph: Graph, store: CheckpointStore, storage: CheckpointStorage, clock: Clock) -> None:
        self._pipeline_id = graph.pipeline.name
        self._endpoints = graph.endpoints
        self._store = store
        self._storage = storage
        self._clock = clock
        self._found: str | None = None  # the newest `_metadata` that this process has seen or written here

    def check(self) -> None:
        """Must be called before anything is done for the pipeline. Raises `PipelineIdentityError`, `StorageError`."""
        self._check(self.require)

    def require_stored_here(self) -> None:
        """The pipeline's state must be on this process's storage: copies of a project have the same places below their
        homes, but each has a checkpoint storage of its own. Raises `PipelineIdentityError`, `StorageError`."""
        self._check(lambda _: None)

    def check_to_begin(self) -> None:
        """`check`, before a checkpoint or region begins. If this database knows none of the pipeline, its checkpoint
        storage has no completed one either: the pipeline would read again what its tables show already."""
        if self._check(self.require):
            return
        try:
            require_not_lost(self._pipeline_id, self._storage.list(self._pipeline_id), self._storage.url)
        except PipelineIdentityError:
            if not self._knows_any():  # asked again: the first one may have completed meanwhile
                raise

    def _check(self, require: Callable[[StoreTransaction], None]) -> bool:
        """Returns whether the database knows any checkpoint of the pipeline."""
        missing = None
        while True:
            with self._store.transaction(self._pipeline_id) as tx:
                require(tx)
                latest = tx.latest_completed()
            if latest is None:
                return self._knows_any()
            if latest.metadata_path is None:
                return True
            path = latest.metadata_path
            if path in self._storage.list(directory(self._pipeline_id, latest.checkpoint_id)):
                self.found(path)
                return True
            if path == missing:
                raise stored_elsewhere(self._pipeline_id, path, self._storage.url)
            missing = path  # look again: a newer checkpoint may have completed, and this one's files may be deleted

    def found(self, path: str) -> None:
        """The `_metadata` of a completed checkpoint is on this process's storage."""
        self._found = path

    @property
    def has_looked(self) -> bool:
        """Whether any was found, so that the next one may be found without a look."""
        return self._found is not None

    def has_found(self, latest: CheckpointRecord | None) -> bool:
        """Whether it is known that the pipeline's newest completed checkpoint is stored here, without a look."""
        return latest is not None and latest.metadata_path == self._found

    def _knows_any(self) -> bool:
        """Ids alone may be given out and come to nothing."""
        return bool(self._store.history(self._pipeline_id, 1))

    def require(self, tx: StoreTransaction) -> None:
        """If two processes begin at once, the second finds here what the first has recorded. Raises
        `PipelineIdentityError`."""
        require_same(self._pipeline_id, tx.endpoints(), self._endpoints)

    def record(self, tx: StoreTransaction, now: datetime) -> None:
        """Called in the transaction that begins a checkpoint or region."""
        if new := find_new(tx.endpoints(), self._endpoints):
            tx.record_endpoints(new, now)

    def moved(self) -> list[Moved]:
        """What `relocate` would change."""
        with self._store.transaction(self._pipeline_id) as tx:
            return find_moved(tx.endpoints(), self._endpoints)

    def relocate(self, deed: Deed = UNASKED) -> list[Moved]:
        """Record what has moved as intended, and return it. Raises `PipelineStatusError` while a checkpoint is in
        progress or its sinks have not committed."""
        with self._store.transaction(self._pipeline_id) as tx:
            moved = find_moved(tx.endpoints(), self._endpoints)
            now = self._clock.now()
            if moved:
                require_at_rest(self._pipeline_id, tx.in_progress(), tx.retained())
                tx.record_endpoints([each.defined for each in moved], now)
            said = "; ".join(map(str, moved)) or "nothing has moved"
            deed.done(tx, now, f"Pipeline {self._pipeline_id}: {said}.")
        for each in moved:
            log.warning("Pipeline %s was relocated: %s.", self._pipeline_id, each)
        return moved
