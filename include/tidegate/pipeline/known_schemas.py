"""What a definition says about the columns of its state without Spark: names of keys and aggregates, and no types."""

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.protocol.schema.state_schema import StateColumn, StateSchema


class KnownSchemas:
    """Implements `ports.StateSchemas` as far as the definition alone goes. It reads no state."""

    def __init__(self, graph: Graph) -> None:
        self._vertices = {vertex.operator_id: vertex for vertex in graph.keyed}

    def stored(self, state: OperatorState, storage_url: str | None = None) -> StateSchema | None:
        return None

    def defined(self, operator_id: str) -> StateSchema | None:
        return known_schema(self._vertices[operator_id])


def known_schema(vertex: KeyedVertex) -> StateSchema:
    """Columns of a user function's state are in its DDL, which Spark reads."""
    keys = tuple(StateColumn(name, None, name) for name in vertex.state_key)
    if not vertex.aggregates:
        return StateSchema(keys, None, ttl=vertex.ttl)
    aggregates = tuple(each.in_state(name) for name, each in vertex.aggregates)
    names = (name for aggregate in aggregates for name in aggregate.accumulators)
    values = tuple(StateColumn(name, None, name) for name in names)
    return StateSchema(keys, values, aggregates, ttl=vertex.ttl, sessions=vertex.has_sessions)
