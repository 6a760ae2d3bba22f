"""Make the sinks of a pipeline whose code is not available, from their records."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tidegate.ports import ReadableAtSink
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.reading.cuts import SinkAt

if TYPE_CHECKING:
    from tidegate.iceberg.sink import IcebergSink
    from tidegate.postgres_sink.sink import PostgresSink
    from tidegate.sinks.parquet import ParquetSink

#: The connection that stands for the metadata database.
_DEFAULT = "tidegate_default"


def _parquet(place: str, definition: Mapping[str, Any]) -> "ParquetSink":
    from tidegate.sinks.parquet import ParquetSink

    return ParquetSink(place, definition["mode"])


def _postgres(place: str, definition: Mapping[str, Any]) -> "PostgresSink":
    from tidegate.postgres_sink.sink import PostgresSink

    connection, _, table = place.removeprefix("postgres://").partition("/")
    key, columns = definition.get("key"), definition.get("columns")
    return PostgresSink(table, definition["mode"], None if connection == _DEFAULT else connection, key, columns)


def _iceberg(place: str, definition: Mapping[str, Any]) -> "IcebergSink":
    from tidegate.iceberg.sink import IcebergSink

    table = definition["table"]
    warehouse = place.removesuffix(f"/{table.replace('.', '/')}")
    return IcebergSink(table, definition["mode"], warehouse, catalog=definition.get("catalog"))


#: By the type that a sink's `describe` gives.
_KNOWN: Mapping[str, Callable[[str, Mapping[str, Any]], "IcebergSink | ParquetSink | PostgresSink"]] = {
    "IcebergSink": _iceberg,
    "ParquetSink": _parquet,
    "PostgresSink": _postgres,
}


def sink_of(pipeline_id: str, sink: SinkAt) -> ReadableAtSink:
    """Make the sink. Raises `ConfigurationError` if the record is not sufficient."""
    make = _KNOWN.get(sink.type or "")
    if make is None:
        raise ConfigurationError(
            f"Sink {sink.name!r} of pipeline {pipeline_id!r} is a {sink.type or 'sink of unknown type'}, which cannot "
            "be read by its name alone. Nothing was read. Give tidegate.read the Pipeline instead of its name."
        )
    if not sink.definition:
        reason = sink.problem or "its definition is not on the checkpoint storage"
        raise ConfigurationError(
            f"Sink {sink.name!r} of pipeline {pipeline_id!r} cannot be read by its name alone: {reason} Nothing was "
            "read. Set TIDEGATE_STORAGE to the storage of the pipeline's checkpoints, or give tidegate.read the "
            "Pipeline instead of its name."
        )
    return make(sink.place, sink.definition).placed(pipeline_id, sink.name)
