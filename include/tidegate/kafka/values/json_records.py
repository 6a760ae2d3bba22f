"""JSON records one by one: their rows, or why they are malformed, with the reasons of `FileSource` for a line.

A record is one JSON object, several in a row, or an array of them. Every object is a row.
"""

import json
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as of

from tidegate.kafka.values.decoded import Decoded, Misfit
from tidegate.kafka.values.json_types import syntax_of
from tidegate.kafka.values.strict_texts import reading
from tidegate.sources import json_texts

EMPTY = "it has no JSON"
_NO_OBJECT = "not a JSON object"
_NO_COLUMN = "it has none of the columns of the schema"
_NOT_FINITE = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


class _Digits(str):
    """A number as it is written."""

    __slots__ = ()


class _Unfit(Exception):
    """A value does not fit the type of its column."""


class _Column(NamedTuple):
    name: str
    read: Callable[[Any], Any]


class Records:
    """Validates records of some columns."""

    def __init__(self, columns: pa.Schema) -> None:
        self._syntax = syntax_of(columns)
        self._schema = columns
        self._columns = [_Column(each.name, _filled(_reading(each.type))) for each in columns]
        self._names = set(columns.names)

    def decode(self, values: Sequence[bytes]) -> Decoded:
        """See `Decoder`."""
        found: list[list[Any]] = [[] for _ in self._columns]
        places: list[int] = []
        misfits: list[Misfit] = []
        for place, value in enumerate(values):
            try:
                text = _text(value)
            except _Unfit as error:
                misfits.append(Misfit(place, str(error), value))
                continue
            several = json_texts.values(text, self._syntax)
            if several is None:
                several = [json_texts.Value(0, text)]
            elif not several:
                misfits += [] if text.strip() else [Misfit(place, EMPTY, value)]
            for found_value in several:
                part = value if len(several) == 1 else found_value.record.encode()
                try:
                    row = self._row(found_value)
                except _Unfit as error:
                    misfits.append(Misfit(place, str(error), part))
                    continue
                places.append(place)
                for column, item in zip(found, row, strict=True):
                    column.append(item)
        arrays = [pa.array(column, field.type) for column, field in zip(found, self._schema, strict=True)]
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=self._schema), np.array(places, np.int64), misfits)

    def _row(self, value: json_texts.Value) -> list[Any]:
        if value.problem is not None:
            raise _Unfit(value.problem)
        record = json.loads(value.record if value.text is None else value.text, parse_int=_Digits, parse_float=_Digits)
        if not isinstance(record, dict):
            raise _Unfit(_NO_OBJECT)
        row, failed = [], []
        for name, read in self._columns:
            item = record.get(name)
            try:
                row.append(read(item))
            except _Unfit:
                failed.append(f"{name} = {_shown(item)}")
        if failed:
            raise _Unfit(f"does not fit the schema: {', '.join(failed)}")
        if self._names.isdisjoint(record):
            raise _Unfit(_NO_COLUMN)
        return row


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        broken = " ".join(f"0x{byte:02X}" for byte in value[error.start : max(error.end, error.start + 1)])
        raise _Unfit(f"{broken} at byte {error.start} is not utf-8") from None
    if (nul := value.find(b"\0")) >= 0:
        raise _Unfit(f"0x00 at byte {nul} is a NUL character")
    return text


def _filled(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _reading(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return the conversion to a type from the values of `json.loads`."""
    if of.is_struct(kind):
        inner = {field.name: _filled(_reading(field.type)) for field in kind}
        return lambda value: {name: read(_a(dict, value).get(name)) for name, read in inner.items()}
    if of.is_map(kind):
        item = _filled(_reading(kind.item_type))
        return lambda value: [(name, item(each)) for name, each in _a(dict, value).items()]
    if of.is_list(kind) or of.is_large_list(kind):
        element = _filled(_reading(kind.value_type))
        return lambda value: [element(each) for each in _a(list, value)]
    if of.is_boolean(kind):
        return lambda value: _a(bool, value)
    if of.is_integer(kind):
        return lambda value: _integer(value, 2 ** _BITS[str(kind)])
    if of.is_floating(kind):
        return _number
    if of.is_string(kind) or of.is_large_string(kind):
        return _shown
    return _strict(kind)


def _strict(kind: pa.DataType) -> Callable[[Any], Any]:
    read, only_text = reading(kind), of.is_binary(kind) or of.is_large_binary(kind)

    def strictly(value: Any) -> Any:
        found = None if only_text and type(value) is not str else read(_shown(value))
        if found is None:
            raise _Unfit
        return found

    return strictly


def _a(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _Unfit
    return value


def _integer(value: Any, limit: int) -> int:
    if type(value) is not _Digits or not value.lstrip("-").isdigit() or len(value) > 20:
        raise _Unfit
    number = int(value)
    if not -limit <= number < limit:
        raise _Unfit
    return number


def _number(value: Any) -> float:
    if type(value) is str and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if type(value) is not _Digits or not isfinite(number := float(value)):
        raise _Unfit
    return number


def _shown(value: Any) -> str:
    """Return a value as text. A value that is no text becomes JSON."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{_inside(each)}" for name, each in value.items())
            + "}"
        )
    if isinstance(value, list):
        return f"[{','.join(map(_inside, value))}]"
    return "null" if value is None else str(value).lower()


def _inside(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if type(value) is str else _shown(value)
