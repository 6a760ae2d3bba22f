"""The schema in which an operator's state was last written, from the metadata of its newest run."""

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.known_schemas import KnownSchemas
from tidegate.protocol.operator_state import OperatorState
from tidegate.protocol.state_schema import StateSchema
from tidegate.state.opening import read_layout
from tidegate.state.runs import newest_of


class StoredSchemas(KnownSchemas):
    """Implements `ports.StateSchemas` without Spark."""

    def __init__(self, graph: Graph, storage_url: str) -> None:
        super().__init__(graph)
        self._storage_url = storage_url

    def stored(self, state: OperatorState) -> StateSchema | None:
        return read_layout(self._storage_url, state.where(), newest_of(state.runs)).schema
