"""Tidegate: Flink's checkpoints for PySpark pipelines, driven by Airflow.

Reading order, a folder each: `pipeline` (the user's definitions, and their checks), `protocol` (the decisions), `ports`
(the contracts), `coordination` (the coordinator, one verb a file), `dataflow` (the movement of data and barriers),
`project` (the user's project), `assembly` (the composition of all parts). Then the adapter you need: `postgres`,
`state`, `spark`, `sources`, `sinks`, `quality`, `airflow`, `ui`, `cli`, `savepoint`. The `__init__` of each describes
it.

The public names are imported when first used, so importing this package costs nothing at DAG parse.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate import state as state
    from tidegate.iceberg.sink import IcebergSink
    from tidegate.iceberg.source import IcebergSource
    from tidegate.kafka.sink import KafkaSink
    from tidegate.kafka.source import KafkaSource
    from tidegate.pipeline.aggregates import (
        approx_count_distinct,
        approx_percentile,
        approx_top_k,
        avg,
        collect_list,
        count,
        count_distinct,
        first,
        last,
        max_,
        max_by,
        min_,
        min_by,
        sum_,
    )
    from tidegate.pipeline.config import CheckpointConfig, CheckpointingMode
    from tidegate.pipeline.definition import Pipeline
    from tidegate.pipeline.expectations import expect, suite
    from tidegate.pipeline.history import CheckpointHistory
    from tidegate.pipeline.previous import Previous
    from tidegate.pipeline.session_windows import session_window
    from tidegate.pipeline.streams import KeyedStream, Stream
    from tidegate.pipeline.update import Update
    from tidegate.pipeline.windows import window
    from tidegate.ports import CheckpointListener, DeliveryGuarantee
    from tidegate.postgres_sink.sink import PostgresSink
    from tidegate.postgres_source.source import PostgresSource
    from tidegate.protocol.facts.errors import CheckpointError
    from tidegate.sinks.parquet import ParquetSink
    from tidegate.sinks.staged_parquet import StagedParquet
    from tidegate.sources.files import FileSource
    from tidegate.sources.range_source import RangeSource
    from tidegate.tables.finding import read

__all__ = [
    "Pipeline", "Stream", "KeyedStream", "Previous", "Update", "CheckpointConfig", "CheckpointHistory",
    "CheckpointingMode", "CheckpointListener", "DeliveryGuarantee", "count", "sum_", "min_", "max_", "avg", "min_by",
    "max_by", "first", "last", "count_distinct", "collect_list", "approx_count_distinct", "approx_percentile",
    "approx_top_k", "window", "session_window", "expect", "suite", "FileSource", "IcebergSink", "IcebergSource",
    "KafkaSink", "KafkaSource", "ParquetSink", "PostgresSink", "PostgresSource", "RangeSource", "StagedParquet",
    "CheckpointError", "read",
]  # fmt: skip
__version__ = "0.1.0"

_PUBLIC = {
    "Pipeline": "tidegate.pipeline.definition",
    "Stream": "tidegate.pipeline.streams",
    "KeyedStream": "tidegate.pipeline.streams",
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
    "first": "tidegate.pipeline.aggregates",
    "last": "tidegate.pipeline.aggregates",
    "count_distinct": "tidegate.pipeline.aggregates",
    "collect_list": "tidegate.pipeline.aggregates",
    "session_window": "tidegate.pipeline.session_windows",
    "approx_count_distinct": "tidegate.pipeline.aggregates",
    "approx_percentile": "tidegate.pipeline.aggregates",
    "approx_top_k": "tidegate.pipeline.aggregates",
    "window": "tidegate.pipeline.windows",
    "expect": "tidegate.pipeline.expectations",
    "suite": "tidegate.pipeline.expectations",
    "FileSource": "tidegate.sources.files",
    "IcebergSink": "tidegate.iceberg.sink",
    "IcebergSource": "tidegate.iceberg.source",
    "KafkaSink": "tidegate.kafka.sink",
    "KafkaSource": "tidegate.kafka.source",
    "ParquetSink": "tidegate.sinks.parquet",
    "PostgresSink": "tidegate.postgres_sink.sink",
    "PostgresSource": "tidegate.postgres_source.source",
    "RangeSource": "tidegate.sources.range_source",
    "StagedParquet": "tidegate.sinks.staged_parquet",
    "CheckpointError": "tidegate.protocol.facts.errors",
    "read": "tidegate.tables.finding",
}

if not TYPE_CHECKING:  # a type checker would take every other name for one of these

    def __getattr__(name: str) -> object:
        if name == "state":  # `tidegate.state.read(…)` without an import of its own
            return import_module("tidegate.state")
        if name not in _PUBLIC:
            raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
        return getattr(import_module(_PUBLIC[name]), name)
