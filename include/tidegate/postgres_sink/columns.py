"""The columns of rows: the column of Postgres that takes each, and the form in which it is loaded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from sqlalchemy import types
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from tidegate.postgres_sink.names import DELETE, LONGEST

if TYPE_CHECKING:
    import pyarrow as pa

_SYSTEM = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


class ZeroCharacterError(ValueError):
    """A text has a character zero, which Postgres cannot store."""


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column of rows: its name, the type in which it is loaded, and its type in a table that the sink makes."""

    name: str
    loaded: TypeEngine[Any]
    made: TypeEngine[Any]

    @property
    def is_json(self) -> bool:
        """Whether it is loaded as text that is JSON."""
        return isinstance(self.made, postgresql.JSONB)


def columns_of(rows: "pa.Schema") -> list[RowColumn]:
    """Return the columns of rows."""
    return [_column(field.name, field.type) for field in rows]


def unusable_names(names: Sequence[str]) -> list[str]:
    """Return a phrase for each name that no column of a table can have."""
    return [
        f"{name!r} cannot be the name of a column in Postgres, {why}: rename it"
        for name in names
        for test, why in (
            (not name or "\0" in name, "as it is empty or has a character zero"),
            (len(name.encode()) > LONGEST, f"as it is longer than {LONGEST} bytes"),
            (name in _SYSTEM, "which has it in each table"),
        )
        if test
    ]


def _column(name: str, kind: "pa.DataType") -> RowColumn:
    import pyarrow.types as of

    if of.is_nested(kind):
        return RowColumn(name, types.Text(), postgresql.JSONB())
    if of.is_decimal(kind):
        return _alike(name, types.Numeric(kind.precision, kind.scale))
    if of.is_timestamp(kind):
        return _alike(name, types.DateTime(timezone=kind.tz is not None))
    for test, made in _SIMPLE(of):
        if test(kind):
            return _alike(name, made)
    return _alike(name, types.Text())


def _alike(name: str, kind: TypeEngine[Any]) -> RowColumn:
    return RowColumn(name, kind, kind)


def _SIMPLE(of: Any) -> Sequence[tuple[Any, TypeEngine[Any]]]:
    return (
        (of.is_boolean, types.Boolean()),
        (lambda kind: of.is_int8(kind) or of.is_int16(kind) or of.is_uint8(kind), types.SmallInteger()),
        (lambda kind: of.is_int32(kind) or of.is_uint16(kind), types.Integer()),
        (of.is_uint64, types.Numeric(20, 0)),
        (of.is_integer, types.BigInteger()),
        (lambda kind: of.is_float16(kind) or of.is_float32(kind), types.REAL()),
        (of.is_floating, postgresql.DOUBLE_PRECISION()),
        (of.is_date, types.Date()),
        (of.is_time, types.Time()),
        (
            lambda kind: of.is_binary(kind) or of.is_large_binary(kind) or of.is_fixed_size_binary(kind),
            types.LargeBinary(),
        ),
    )


def with_deletes(batch: "pa.RecordBatch", names: Sequence[str]) -> "pa.RecordBatch":
    """Add the column that marks deleted keys, if it is among the names. Rows that lack it stay."""
    import pyarrow as pa

    if DELETE not in names or DELETE in batch.schema.names:
        return batch
    return batch.append_column(DELETE, pa.nulls(batch.num_rows, pa.bool_()))


def as_loaded(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return the rows as they are loaded: nested values as JSON, and types that COPY lacks as the nearest ones."""
    import pyarrow as pa
    import pyarrow.types as of

    arrays = [_as_json(array) if of.is_nested(array.type) else _as_copied(array) for array in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _as_copied(array: "pa.Array[Any]") -> "pa.Array[Any]":
    import pyarrow as pa
    import pyarrow.types as of

    for test, kind in (
        (of.is_uint64, pa.decimal128(20, 0)),
        (of.is_time32, pa.time64("us")),
        (of.is_float16, pa.float32()),
        (of.is_fixed_size_binary, pa.binary()),
    ):
        if test(array.type):
            return array.cast(kind)
    return array


def _as_json(array: "pa.Array[Any]") -> "pa.Array[Any]":
    import pyarrow as pa
    import pyarrow.types as of

    values = array.to_pylist(maps_as_pydicts="strict") if _has_text_keys(array.type, of) else array.to_pylist()
    texts = [None if value is None else json.dumps(_plain(value), ensure_ascii=False) for value in values]
    return pa.array(texts, pa.string())


def _has_text_keys(kind: "pa.DataType", of: Any) -> bool:
    """Whether every map in a type has keys that JSON takes."""
    if of.is_map(kind) and not of.is_string(kind.key_type):
        return False
    return all(_has_text_keys(kind.field(at).type, of) for at in range(kind.num_fields)) if of.is_nested(kind) else True


def _plain(value: Any) -> Any:
    """Return a value for JSON. Values of other types become text: times in ISO 8601, decimals digit for digit, bytes in
    hexadecimal, and numbers that are not finite by their names."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, str) and "\0" in value:
        raise ZeroCharacterError("a text in a nested value has a character zero")
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
