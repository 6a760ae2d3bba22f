"""The schema in which an operator's state was last written, from the metadata of its newest run."""

from collections.abc import Callable

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.known_schemas import KnownSchemas
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.protocol.schema.state_schema import StateSchema
from tidegate.state.opening import read_layout
from tidegate.state.runs import newest_of


class StoredSchemas(KnownSchemas):
    """See `ports.StateSchemas`. `open_types` opens the source of a definition's types on the first request."""

    def __init__(self, graph: Graph, storage_url: str, open_types: Callable[[], Callable[[str], StateSchema]]) -> None:
        super().__init__(graph)
        self._storage_url = storage_url
        self._open_types = open_types
        self._types: Callable[[str], StateSchema] | None = None

    def stored(self, state: OperatorState, storage_url: str | None = None) -> StateSchema | None:
        return read_layout(storage_url or self._storage_url, state.where(), newest_of(state.runs)).schema

    def defined(self, operator_id: str) -> StateSchema:
        if self._types is None:
            self._types = self._open_types()
        return self._types(operator_id)
