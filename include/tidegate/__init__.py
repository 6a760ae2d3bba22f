"""Tidegate: Flink's checkpoints for PySpark pipelines, driven by Airflow.

Reading order, a folder each: `pipeline` (what a user writes, and the same, checked), `protocol` (the decisions),
`ports` (the contracts), `coordination` (the coordinator, one verb a file), `dataflow` (how data and barriers move),
`project` (a user's own), `assembly` (what puts the rooms together). Then the adapter you need: `postgres`, `state`,
`spark`, `sources`, `sinks`, `quality`, `airflow`, `ui`, `cli`, `savepoint`. Each says in its `__init__` what it is.

The public names are imported when first used, so importing this package costs nothing at DAG parse.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "Pipeline": "tidegate.pipeline.definition",
    "Previous": "tidegate.pipeline.previous",
    "Update": "tidegate.pipeline.update",
    "CheckpointConfig": "tidegate.pipeline.config",
    "CheckpointHistory": "tidegate.pipeline.history",
    "CheckpointingMode": "tidegate.pipeline.config",
    "CheckpointListener": "tidegate.ports",
    "DeliveryGuarantee": "tidegate.ports",
    "count": "tidegate.pipeline.aggregates",
    "sum_": "tidegate.pipeline.aggregates",
    "min_": "tidegate.pipeline.aggregates",
    "max_": "tidegate.pipeline.aggregates",
    "avg": "tidegate.pipeline.aggregates",
    "min_by": "tidegate.pipeline.aggregates",
    "max_by": "tidegate.pipeline.aggregates",
    "window": "tidegate.pipeline.windows",
    "expect": "tidegate.pipeline.expectations",
    "suite": "tidegate.pipeline.expectations",
    "FileSource": "tidegate.sources.files",
    "ParquetSink": "tidegate.sinks.parquet",
    "CheckpointError": "tidegate.protocol.facts.errors",
}

__all__ = list(_PUBLIC)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "state":  # `tidegate.state.read(…)` without an import of its own
        return import_module("tidegate.state")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
