"""The operations of every pipeline, on one store: for a server, which keeps it open."""

from collections.abc import Callable

from tidegate.coordination.context import PipelineContext
from tidegate.coordination.operations import PipelineOperations
from tidegate.ports import CheckpointStorage, CheckpointStore, Clock
from tidegate.protocol.facts.errors import PipelineNotFoundError


class AllOperations:
    """Thread-safe, as the store is. `close` ends its connections."""

    def __init__(
        self, store: CheckpointStore, storage: CheckpointStorage, clock: Clock, close: Callable[[], None]
    ) -> None:
        self._store = store
        self._storage = storage
        self._clock = clock
        self.close = close

    def of(self, pipeline_id: str) -> PipelineOperations:
        """Raises `PipelineNotFoundError` for a name that the database does not know."""
        if not pipeline_id.isprintable() or self._store.pipeline(pipeline_id) is None:
            raise PipelineNotFoundError(f"This database knows no pipeline {pipeline_id[:100]!a}. Nothing was changed.")
        return PipelineOperations(PipelineContext(pipeline_id, self._store, self._storage, self._clock))
