"""The columns of state that a definition tells without Spark: names of keys and aggregates, without types."""

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.protocol.schema.state_schema import StateColumn, StateSchema


class KnownSchemas:
    """See `ports.StateSchemas`. It knows only the definition and reads no state."""

    def __init__(self, graph: Graph) -> None:
        self._vertices = {vertex.operator_id: vertex for vertex in graph.keyed}

    def stored(self, state: OperatorState, storage_url: str | None = None) -> StateSchema | None:
        return None

    def defined(self, operator_id: str) -> StateSchema | None:
        return known_schema(self._vertices[operator_id])


def known_schema(vertex: KeyedVertex) -> StateSchema:
    """Return the columns of keys and aggregates. Spark reads the columns of a user function's state from its DDL."""
    keys = tuple(StateColumn(name, None, name) for name in vertex.state_key)
    if not vertex.aggregates:
        return StateSchema(keys, None, ttl=vertex.ttl)
    aggregates = tuple(aggregate.in_state(name) for name, aggregate in vertex.aggregates)
    names = (name for aggregate in aggregates for name in aggregate.accumulators)
    values = tuple(StateColumn(name, None, name) for name in names)
    return StateSchema(keys, values, aggregates, ttl=vertex.ttl, sessions=vertex.has_sessions)
