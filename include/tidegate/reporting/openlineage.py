"""A notifier that sends the lineage of completed checkpoints.

It uses the transport that OpenLineage's own client is configured with (`OPENLINEAGE_URL`, `OPENLINEAGE__TRANSPORT__…`,
`openlineage.yml`).
"""

import os
from contextlib import suppress
from typing import Any

from openlineage.client import OpenLineageClient

import tidegate
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import CheckVertex, SourceVertex
from tidegate.ports import CheckpointStore, ListingSource, ReadableStorage, RemoteEndpoint
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.records import SubtaskId, SubtaskRecord
from tidegate.protocol.observing.events import Event, EventKind
from tidegate.reporting.deadline import PATIENCE, within
from tidegate.reporting.lineage import Lineage, run_event

#: The receiver is reachable but temporarily refuses requests.
_NOT_NOW = frozenset({408, 425, 429})


class OpenLineage:
    """A notifier that sends one event for each completed checkpoint."""

    name = "openlineage"
    kinds = frozenset({EventKind.CHECKPOINT_COMPLETED})

    def __init__(self, graph: Graph, store: CheckpointStore, storage: ReadableStorage) -> None:
        self._graph = graph
        self._store = store
        self._storage = storage

    def notify(self, event: Event) -> bool:
        assert event.checkpoint_id is not None
        lineage = run_event(self._lineage(event.checkpoint_id))
        return within(PATIENCE, lambda: _emit(lineage))

    def _lineage(self, checkpoint_id: int) -> Lineage:
        pipeline = self._graph.pipeline
        record = self._store.checkpoint(pipeline.name, checkpoint_id)
        assert record is not None  # rows of checkpoints are never deleted
        subtasks = self._store.subtasks(pipeline.name, checkpoint_id)
        return Lineage(
            namespace=os.environ.get("OPENLINEAGE_NAMESPACE") or "default",
            version=tidegate.__version__,
            record=record,
            subtasks=subtasks,
            verdicts=self._store.verdicts(pipeline.name, checkpoint_id),
            sources=self._graph.sources,
            sinks=self._graph.sinks,
            checks=[vertex for vertex in pipeline.vertices if isinstance(vertex, CheckVertex)],
            files={vertex.name: self._files(vertex, checkpoint_id, subtasks) for vertex in self._graph.sources},
            datasets=self._datasets(),
        )

    def _datasets(self) -> dict[str, tuple[str, str]]:
        """Return the endpoints' own datasets, without those whose connection no longer exists."""
        endpoints: dict[str, object] = {vertex.operator_id: vertex.source for vertex in self._graph.sources}
        endpoints |= {vertex.operator_id: vertex.sink for vertex in self._graph.sinks}
        datasets = {}
        for operator_id, endpoint in endpoints.items():
            if isinstance(endpoint, RemoteEndpoint):
                with suppress(CheckpointError):
                    datasets[operator_id] = endpoint.dataset()
        return datasets

    def _files(
        self, vertex: SourceVertex, checkpoint_id: int, subtasks: dict[SubtaskId, SubtaskRecord]
    ) -> dict[str, int] | None:
        """Return the files read; None if the source keeps no list, or if a later checkpoint has replaced it."""
        if not isinstance(vertex.source, ListingSource):
            return None
        files: dict[str, int] = {}
        try:
            for key, record in subtasks.items():
                if key.operator_id == vertex.operator_id:
                    files |= vertex.source.read_in(checkpoint_id, record.snapshot, self._storage)
        except CheckpointError:
            return None
        return files


def _emit(lineage: Any) -> bool:
    """Whether the backend has accepted the event. An error of its transport is raised."""
    client = OpenLineageClient()
    try:
        client.emit(lineage)
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(status, int) and 400 <= status < 500 and status not in _NOT_NOW:
            return False
        raise
    if not client.close(PATIENCE):
        raise TimeoutError
    return True
