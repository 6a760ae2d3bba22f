"""Rows of state as JSON, for people and other programs. No value is lost, and every reader accepts it."""

import math
from typing import Any

import pyarrow as pa

from tidegate.state.columns import one_chunk


def json_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return one object per row. Decimals, dates, times and intervals are text, binary is text in hex, and floats that
    JSON lacks are "NaN", "Infinity" and "-Infinity". Arrays are lists of these, and structs are objects."""
    columns = {name: _plain(column) for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def key_text(keys: pa.Table, row: int) -> str:
    """Return the key in one row of a `pyarrow.Table` as text for a message. Arrow converts dates and timestamps,
    because Python's types cannot hold all of Spark's values."""
    columns = {name: one_chunk(keys.column(name).slice(row, 1)) for name in keys.schema.names}
    shown = {n: c.cast(pa.string()) if pa.types.is_temporal(c.type) else c for n, c in columns.items()}
    return ", ".join(f"{name}={column[0].as_py()!r}" for name, column in shown.items())


def _plain(column: pa.Array) -> list[Any]:
    """Convert a column to Python values; Arrow converts where Python's types cannot hold all values."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return [dict(zip(names, values, strict=True)) for values in zip(*map(_plain, column.flatten()), strict=True)]
    if pa.types.is_list(kind):
        return [None if not lists.is_valid else _plain(lists.values) for lists in column]
    if pa.types.is_duration(kind):
        return [None if value is None else _interval(value) for value in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        values: list[Any] = column.cast(pa.string()).to_pylist()
        return values
    if pa.types.is_binary(kind):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    if pa.types.is_floating(kind):
        return [_finite(value) for value in column.to_pylist()]
    plain: list[Any] = column.to_pylist()
    return plain


def _interval(microseconds: int) -> str:
    """Return days, hours, minutes and seconds, such as `-3 04:05:06.000007`."""
    seconds, fraction = divmod(abs(microseconds), 1_000_000)
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}.{fraction:06}"
    return f"{'-' if microseconds < 0 else ''}{days} {clock}"


def _finite(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
