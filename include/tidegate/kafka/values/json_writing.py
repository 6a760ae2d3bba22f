"""Rows as JSON objects with every column. `FileSource` and `KafkaSource` read them as the same rows."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as of


class JsonEncoder:
    """See `Encoder`."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = [(each.name, f"{_text(each.name)}:", _writing(each.type)) for each in columns]

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """See `Encoder`."""
        texts = [[key + write(value) for value in rows.column(name).to_pylist()] for name, key, write in self._columns]
        return [f"{{{','.join(row)}}}".encode() for row in zip(*texts, strict=True)]


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _writing(kind: pa.DataType) -> Callable[[Any], str]:
    write = _writing_of_value(kind)
    return lambda value: "null" if value is None else write(value)


def _writing_of_value(kind: pa.DataType) -> Callable[[Any], str]:
    if of.is_struct(kind):
        fields = [(each.name, f"{_text(each.name)}:", _writing(each.type)) for each in kind]
        return lambda value: f"{{{','.join(key + write(value[name]) for name, key, write in fields)}}}"
    if of.is_map(kind):
        key_text, item = _as_key(kind.key_type), _writing(kind.item_type)
        return lambda value: f"{{{','.join(f'{key_text(key)}:{item(each)}' for key, each in value)}}}"
    if of.is_list(kind) or of.is_large_list(kind):
        element = _writing(kind.value_type)
        return lambda value: f"[{','.join(map(element, value))}]"
    for test, write in _WRITINGS:
        if test(kind):
            return write
    return str


def _as_key(kind: pa.DataType) -> Callable[[Any], str]:
    if of.is_string(kind) or of.is_large_string(kind):
        return _text
    write = _writing_of_value(kind)
    return lambda key: _text(write(key).strip('"'))


def _moment(value: datetime) -> str:
    """Return a `TIMESTAMP` in UTC, and a `TIMESTAMP_NTZ` without a zone."""
    if value.tzinfo is None:
        return f'"{value.isoformat()}"'
    return f'"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"'


def _double(value: float) -> str:
    """Return a number as Spark writes it. Numbers that JSON does not have become text."""
    if isnan(value):
        return '"NaN"'
    return repr(value) if abs(value) != float("inf") else '"Infinity"' if value > 0 else '"-Infinity"'


def _float(value: float) -> str:
    """Return a number with the digits of a `FLOAT`."""
    return str(np.float32(value)) if np.isfinite(value) else _double(value)


def _bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


_WRITINGS: list[tuple[Callable[[pa.DataType], bool], Callable[[Any], str]]] = [
    (lambda kind: bool(of.is_string(kind) or of.is_large_string(kind)), _text),
    (of.is_boolean, lambda value: "true" if value else "false"),
    (of.is_float32, _float),
    (of.is_floating, _double),
    (of.is_decimal, lambda value: format(value, "f")),
    (of.is_date, lambda value: f'"{value.isoformat()}"'),
    (of.is_timestamp, _moment),
    (
        lambda kind: bool(of.is_binary(kind) or of.is_large_binary(kind)),
        lambda value: f'"{base64.b64encode(value).decode()}"',
    ),
]
