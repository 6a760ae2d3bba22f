"""A table's columns in Spark's types, and their values in Arrow."""

import json
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Table, Text, cast, func

from tidegate.postgres_source.tables import KnownColumn, KnownTable

if TYPE_CHECKING:
    import pyarrow as pa

_SIMPLE = {
    "boolean": "BOOLEAN",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "text": "STRING",
    "character varying": "STRING",
    "bytea": "BINARY",
    "date": "DATE",
    "timestamp without time zone": "TIMESTAMP_NTZ",
    "timestamp with time zone": "TIMESTAMP",
}
#: Types read as text that Spark can cast to the given type.
_AS_TEXT = {"xid8": "BIGINT"}
_NUMERIC = re.compile(r"numeric\((\d+),(\d+)\)")
_LENGTH = re.compile(r"\(\d+\)")
#: The first values of the year 1. Postgres's infinity becomes a far earlier time in the driver for Arrow.
_FIRST_DAY, _FIRST_MICROSECOND = -719_162, -62_135_596_800_000_000


def ddl_of_table(columns: Sequence[KnownColumn]) -> str:
    """Return all columns in Spark's types. Other types become text, and nested ones JSON."""
    return ", ".join(f"`{column.name.replace('`', '``')}` {_type(column)}" for column in columns)


def _type(column: KnownColumn) -> str:
    base = _LENGTH.sub("", column.type)
    if (numeric := _NUMERIC.fullmatch(column.type)) is not None and int(numeric[1]) <= 38:
        return f"DECIMAL({numeric[1]},{numeric[2]})" if int(numeric[2]) <= int(numeric[1]) else "STRING"
    return _SIMPLE.get(base) or _AS_TEXT.get(base) or "STRING"


def selected(known: KnownTable, table: Table, names: Sequence[str]) -> list[ColumnElement[Any]]:
    """Return the columns as a statement selects them from the table."""
    columns = {column.name: column for column in known.columns}
    return [_selected(table.c[name], columns[name]).label(name) for name in names]


def _selected(column: ColumnElement[Any], known: KnownColumn) -> ColumnElement[Any]:
    if known.type.endswith("[]") or known.is_composite:
        return cast(func.to_jsonb(column), Text)
    return column if _LENGTH.sub("", known.type) in _SIMPLE else cast(column, Text)


def unreadable(batch: "pa.RecordBatch") -> str | None:
    """Return a column with a time that Spark cannot represent."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for field, column in zip(batch.schema, batch.columns, strict=True):
        first = _FIRST_DAY if pa.types.is_date32(field.type) else _FIRST_MICROSECOND
        if pa.types.is_date32(field.type) or pa.types.is_timestamp(field.type):
            number = column.view(pa.int32() if pa.types.is_date32(field.type) else pa.int64())
            least = pc.min(number).as_py()
            if least is not None and least < first:
                return str(field.name)
    return None


def nested(column: "pa.Array[Any]", kind: "pa.DataType") -> "pa.Array[Any]":
    """Parse values of an array, a struct or a map from their JSON. Raise `ValueError`, `TypeError`, `KeyError`."""
    import pyarrow as pa

    of_value = _reading(kind)
    return pa.array([None if text is None else of_value(json.loads(text)) for text in column.to_pylist()], kind)


def _reading(kind: "pa.DataType") -> Callable[[Any], Any]:
    """Return the parser for a value of JSON in the form that `PostgresSink` writes."""
    import pyarrow.types as of

    if of.is_map(kind):
        key, item = _reading(kind.key_type), _reading(kind.item_type)
        return _filled(lambda value: [(key(k), item(v)) for k, v in _pairs(value)])
    if of.is_list(kind) or of.is_large_list(kind):
        element = _reading(kind.value_type)
        return _filled(lambda value: [element(each) for each in value])
    if of.is_struct(kind):
        inner = {field.name: _reading(field.type) for field in kind}
        return _filled(lambda value: {name: read(value.get(name)) for name, read in inner.items()})
    for test, read in (
        (of.is_date, date.fromisoformat),
        (of.is_timestamp, datetime.fromisoformat),
        (of.is_decimal, lambda value: Decimal(str(value))),
        (of.is_binary, bytes.fromhex),
        (of.is_floating, float),
        (of.is_string, lambda value: value if isinstance(value, str) else json.dumps(value)),
    ):
        if test(kind):
            return _filled(read)
    return lambda value: value


def _pairs(value: Any) -> Any:
    return value.items() if isinstance(value, dict) else value


def _filled(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)
