"""What identifies the derived columns of a sink that shows state behind transforms."""

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
    """A short hash of the transforms; nothing of a sink that derives no columns.

    A table with another one has rows that would be computed otherwise now. Equal in every process of one Python
    version.
    """
    return {TRANSFORMS: _digest(sink)} if derives(sink) else {}


def recorded_sink(graph: Graph, sink: SinkVertex) -> dict[str, Any]:
    """What the metadata of checkpoints says of a sink. One that shows no state is given no row again."""
    derivation = derivation_of(sink) if sink.operator_id in graph.showing_state else {}
    return {**sink.sink.describe(), **promised(graph.pipeline, sink), **derivation}


@lru_cache(maxsize=256)  # asked for each subtask of each checkpoint
def _digest(sink: SinkVertex) -> str:
    return sha256(json.dumps(facts_of(sink.input), sort_keys=True).encode()).hexdigest()[:16]
