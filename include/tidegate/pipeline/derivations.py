"""The identity of the derived columns of a sink that shows state behind transforms."""

import json
from functools import lru_cache
from hashlib import sha256
from typing import Any

from tidegate.pipeline.fingerprint import facts_of
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.guarantees import promised
from tidegate.pipeline.sink_inputs import derives
from tidegate.pipeline.vertices import SinkVertex
from tidegate.protocol.recovery.changes import TRANSFORMS


def derivation_of(sink: SinkVertex) -> dict[str, str]:
    """Return a short hash of the sink's transforms; empty if the sink derives no columns.

    A table with another hash has rows that the transforms would compute differently now. The hash is equal in every
    process of one Python version.
    """
    return {TRANSFORMS: _digest(sink)} if derives(sink) else {}


def recorded_sink(graph: Graph, sink: SinkVertex) -> dict[str, Any]:
    """Return the description of a sink for the metadata of checkpoints. A sink that shows no state receives no row
    again, so it needs no hash of its transforms."""
    derivation = derivation_of(sink) if sink.operator_id in graph.showing_state else {}
    return {**sink.sink.describe(), **promised(graph.pipeline, sink), **derivation}


@lru_cache(maxsize=256)  # called for each subtask of each checkpoint
def _digest(sink: SinkVertex) -> str:
    return sha256(json.dumps(facts_of(sink.input), sort_keys=True).encode()).hexdigest()[:16]
