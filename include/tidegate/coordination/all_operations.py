"""The operations of every pipeline in one store, for a server that keeps the store open."""

from collections.abc import Callable

from tidegate.coordination.context import PipelineContext
from tidegate.coordination.operations import PipelineOperations
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock
from tidegate.protocol.facts.errors import PipelineNotFoundError


class AllOperations:
    """Operations by pipeline. Thread-safe, as the store is. `close` ends the store's connections."""

    def __init__(
        self, store: CheckpointStore, storage: CheckpointStorage, clock: Clock, close: Callable[[], None]
    ) -> None:
        self._store = store
        self._storage = storage
        self._clock = clock
        self.close = close

    def of(self, pipeline_id: str) -> PipelineOperations:
        """Return the operations of one pipeline. Raise `PipelineNotFoundError` if the database does not have it."""
        if not pipeline_id.isprintable() or self._store.pipeline(pipeline_id) is None:
            raise PipelineNotFoundError(f"This database has no pipeline {pipeline_id[:100]!a}. Nothing was changed.")
        return PipelineOperations(PipelineContext(pipeline_id, self._store, self._storage, self._clock))
