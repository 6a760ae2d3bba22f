"""The declaration of a `KafkaSource`: its options and its columns."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.ports import SinkInput
from tidegate.protocol.schema.ddl import columns_of

if TYPE_CHECKING:
    from tidegate.kafka.source import KafkaSource

#: Parts of a record, apart from its value, that a column may have, with the types of Spark's own source.
METADATA: Mapping[str, str] = {
    "key": "BINARY",
    "timestamp": "TIMESTAMP",
    "partition": "INT",
    "offset": "BIGINT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "topic": "STRING",
}
#: Other names of the same type.
_ALIKE = {"INTEGER": "INT", "LONG": "BIGINT", "TIMESTAMP_LTZ": "TIMESTAMP"}
_WORDS = ("earliest", "latest")


def columns_of_rows(declared: str, metadata: Mapping[str, str]) -> str:
    """Return the columns of the rows: those of the schema, then those of the metadata that it does not name."""
    names = [name for name, _ in columns_of(declared)]
    more = [f"`{name}` {METADATA[kind]}" for name, kind in metadata.items() if name not in names]
    return ", ".join([declared.strip(), *more] if declared.strip() else more)


def columns_of_value(declared: str, metadata: Mapping[str, str]) -> str | None:
    """Return the columns of the schema that are part of the value; None if it names none."""
    found = [f"`{name}` {type_}" for name, type_ in columns_of(declared) if name not in metadata]
    return ", ".join(found) or None


def problems_of(source: "KafkaSource", declared: str) -> Iterator[str]:
    """Yield the errors in its options."""
    if not source.topic or "/" in source.topic:
        yield f"{source.topic!r} is no name of a topic"
    if source.splits < 1:
        yield f"splits is {source.splits}, but must be at least 1"
    elif source.max_rows is not None and source.max_rows < source.splits:
        yield f"max_rows is {source.max_rows}, but must be at least 1 for each split, so {source.splits}"
    if source.malformed not in ("fail", "quarantine"):
        yield f'malformed is {source.malformed!r}, but must be "fail" or "quarantine"'
    elif (source.malformed == "quarantine") != (source.quarantine is not None):
        yield 'malformed="quarantine" and quarantine=ParquetSink(…) belong together'
    elif source.quarantine is not None and source.quarantine.input is not SinkInput.CHANGES:
        yield "the quarantine must append: malformed records have no key"
    yield from _of_metadata(source.metadata, declared)
    yield from source.form.problems(columns_of_value(declared, source.metadata))
    yield from _of_start(source.start)


def _of_metadata(metadata: Mapping[str, str], declared: str) -> Iterator[str]:
    types = dict(columns_of(declared))
    for name, kind in metadata.items():
        if kind not in METADATA:
            yield f"metadata= has {kind!r} for column {name!r}, but must be one of {', '.join(METADATA)}"
        elif name in types and _plain(types[name]) != _plain(METADATA[kind]):
            yield f"column {name!r} is the {kind} of the record, so it is {METADATA[kind]}, and not {types[name]}"


def _plain(type_: str) -> str:
    text = type_.upper().replace(" ", "")
    return _ALIKE.get(text, text)


def _of_start(start: Any) -> Iterator[str]:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            yield "start is a time without a zone, such as datetime(2026, 11, 28, tzinfo=UTC)"
    elif isinstance(start, Mapping):
        if not start or not all(_is_number(each) for item in start.items() for each in item):
            yield f"start is {dict(start)!r}, but must have an offset for each partition, such as {{0: 1200, 1: 1180}}"
    elif start not in _WORDS:
        yield (
            f'start is {start!r}, but must be "earliest", "latest", a time with a zone, or an offset for each partition'
        )


def _is_number(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given >= 0


def start_as_json(start: str | datetime | Mapping[int, int]) -> Any:
    """Return `start=` for `describe`."""
    if isinstance(start, datetime):
        return start.isoformat()
    return start if isinstance(start, str) else {str(each): offset for each, offset in sorted(start.items())}
