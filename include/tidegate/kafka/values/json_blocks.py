"""JSON in blocks: pyarrow parses many records at once. A block is halved if a record in it may be malformed, or if
`FileSource` might read one differently. In the end, single records are parsed one by one.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of
from pyarrow import json as arrow_json

from tidegate.kafka.values.decoded import TOMBSTONE, Decoded, Misfit
from tidegate.kafka.values.json_records import Records
from tidegate.kafka.values.strict_texts import is_text, typed

_FEW = 32  # with no more records, a block does not pay
_BLANKS = b" \t\r\n"
#: Numbers for pyarrow, but not in JSON.
_NOT_NUMBER = re.compile(rb"[:,\[\s-](?:NaN|Inf)")


class _DoubtfulError(Exception):
    """The records must be parsed one by one."""


#: Errors with that meaning.
_DOUBTFUL = (_DoubtfulError, pa.ArrowException, UnicodeDecodeError)


class _Piece(NamedTuple):
    """The rows of the records from `begin` on."""

    begin: int
    size: int
    found: Decoded


class JsonDecoder:
    """See `Decoder`."""

    def __init__(self, columns: pa.Schema, tombstones: str = "malformed") -> None:
        self._columns, self._tombstones = columns, tombstones
        self._records = Records(columns)
        self._parsed = None if any(_has_map(each.type) for each in columns) else _parsed(columns)
        self._others = False  # whether records have keys that are no columns
        self._keys = sorted({name for each in columns for name in _names(each)})

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """See `Decoder`."""
        if self._parsed is not None and len(values) > _FEW:
            try:
                return Decoded(self._block(cast("Sequence[bytes]", values)))
            except (*_DOUBTFUL, TypeError):  # the latter for a tombstone
                pass
        places: npt.NDArray[np.int64] | None = None
        misfits: list[Misfit] = []
        if None in values:
            empty = [place for place, value in enumerate(values) if value is None]
            if self._tombstones == "null":
                return self._with_nulls(values)
            if self._tombstones == "malformed":
                misfits = [Misfit(place, TOMBSTONE, None) for place in empty]
            places = np.delete(np.arange(len(values)), empty)
        found = _joined(self._pieces([value for value in values if value is not None], 0), self._columns)
        return found if places is None else _moved(found, places, misfits)

    def _with_nulls(self, values: Sequence[bytes | None]) -> Decoded:
        pieces: list[_Piece] = []
        begin = 0
        for place in [*(place for place, value in enumerate(values) if value is None), len(values)]:
            if begin < place:
                pieces += self._pieces(cast("list[bytes]", list(values[begin:place])), begin)
            if place < len(values):
                arrays = [pa.nulls(1, each.type) for each in self._columns]
                pieces.append(_Piece(place, 1, Decoded(pa.RecordBatch.from_arrays(arrays, schema=self._columns))))
            begin = place + 1
        return _joined(pieces, self._columns)

    def _pieces(self, values: list[bytes], begin: int) -> list[_Piece]:
        if self._parsed is not None and len(values) > _FEW:
            try:
                return [_Piece(begin, len(values), Decoded(self._block(values)))]
            except _DOUBTFUL:
                half = len(values) // 2
                return self._pieces(values[:half], begin) + self._pieces(values[half:], begin + half)
        return [_Piece(begin, len(values), self._records.decode(values))] if values else []

    def _block(self, values: Sequence[bytes]) -> pa.RecordBatch:
        """Return the rows of a block. Raise `_DoubtfulError`, and the errors of pyarrow."""
        data = _objects(values)
        data.decode()  # pyarrow does not check the parts that it leaves out
        if b"\0" in data or ((b"NaN" in data or b"Inf" in data) and _NOT_NUMBER.search(data)):
            raise _DoubtfulError
        table = self._table(data)
        if table.num_rows != len(values):
            raise _DoubtfulError
        arrays = [_typed(table.column(each.name), each.type) for each in self._columns]
        if all(each.null_count for each in arrays) and _any_empty(arrays):
            raise _DoubtfulError
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _table(self, data: bytes) -> pa.Table:
        if not self._others:
            try:
                return self._read(data, "error")
            except pa.ArrowInvalid as error:
                if "unexpected field" not in str(error):
                    raise
                self._others = True
        lower = data.lower()
        if any(data.count(key) != lower.count(key.lower()) for key in self._keys):
            raise _DoubtfulError  # a key that differs from a column only in case
        return self._read(data, "ignore")

    def _read(self, data: bytes, others: str) -> pa.Table:
        return arrow_json.read_json(
            pa.BufferReader(data),
            arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            arrow_json.ParseOptions(explicit_schema=self._parsed, unexpected_field_behavior=others),
        )


def _objects(values: Sequence[bytes]) -> bytes:
    """Join the values to one text, if each begins and ends like an object. The text is then valid JSON only if each
    value
    is: between two values, pyarrow is behind a closed brace, and a brace that opens can only follow at the top level.
    """
    data = b"\n".join(values)
    if not _are_objects(data, values):
        stripped = [value.strip(_BLANKS) for value in values]
        data = b"\n".join(stripped)
        if not _are_objects(data, stripped):
            raise _DoubtfulError
    return data


def _are_objects(data: bytes, values: Sequence[bytes]) -> bool:
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.cumsum(sizes + 1) - 2
    letters = np.frombuffer(data, np.uint8)
    if not sizes.all():
        return False
    return bool((letters[ends - sizes + 1] == ord("{")).all() and (letters[ends] == ord("}")).all())


def _any_empty(arrays: list[pa.Array]) -> bool:
    """Whether a row is null in all columns, so that its record may have none of them."""
    empty = pc.is_null(arrays[0])
    for each in arrays[1:]:
        empty = pc.and_(empty, pc.is_null(each))
    return bool(pc.any(empty).as_py())


def _parsed(columns: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(each.name, _as_text(each.type)) for each in columns])


def _as_text(kind: pa.DataType) -> pa.DataType:
    """Return the type in which pyarrow parses a column that gets another type later."""
    if of.is_struct(kind):
        return pa.struct([pa.field(each.name, _as_text(each.type)) for each in kind])
    if of.is_list(kind) or of.is_large_list(kind):
        return pa.list_(_as_text(kind.value_type))
    return pa.string() if is_text(kind) or of.is_large_string(kind) else kind


def _typed(column: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return a parsed column in its own type. Raise `_DoubtfulError` if a value may not fit it."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if of.is_struct(kind) or of.is_list(kind) or of.is_large_list(kind):
        return _nested(array, kind)
    if is_text(kind):
        found = typed(array, kind)
        if found is None:
            raise _DoubtfulError
        return found
    if of.is_floating(kind) and pc.any(pc.is_inf(array)).as_py():
        raise _DoubtfulError
    if of.is_decimal(kind) and _has_too_many_digits(array, kind):
        raise _DoubtfulError
    return array if array.type == kind else array.cast(kind)


def _nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if of.is_struct(kind):
        children = [_typed(array.field(at), kind.field(at).type) for at in range(kind.num_fields)]
        buffers = array.buffers()[:1]
    else:
        children = [_typed(array.values, kind.value_type)]
        buffers = array.buffers()[:2]
    if array.offset:
        raise _DoubtfulError
    plain = kind if not of.is_large_list(kind) else pa.list_(kind.value_field)
    found = pa.Array.from_buffers(plain, len(array), buffers, array.null_count, 0, children)
    return found if plain == kind else found.cast(kind)


def _has_too_many_digits(array: pa.Array, kind: pa.DataType) -> bool:
    """Whether numbers exceed the precision, which pyarrow ignores when it rescales them."""
    least, most = pc.min_max(array).as_py().values() if len(array) else (None, None)
    limit = 10 ** (kind.precision - kind.scale)
    return least is not None and (least <= -limit or most >= limit)


def _has_map(kind: pa.DataType) -> bool:
    if of.is_map(kind):
        return True
    return any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _names(field: pa.Field) -> list[bytes]:
    """Return the names of a column and of the fields inside, as JSON keys."""
    found = [f'"{field.name}"'.encode()]
    kind = field.type
    while of.is_list(kind) or of.is_large_list(kind):
        kind = kind.value_type
    return found + ([name for each in kind for name in _names(each)] if of.is_struct(kind) else [])


def _joined(pieces: Sequence[_Piece], columns: pa.Schema) -> Decoded:
    """Join pieces that follow one another, with the places of their records in the whole."""
    if len(pieces) == 1 and not pieces[0].begin:
        return pieces[0].found
    if not pieces:
        return Decoded(_nothing(columns), np.zeros(0, np.int64))
    moved = [_moved(piece.found, np.arange(piece.begin, piece.begin + piece.size)) for piece in pieces]
    rows = pa.concat_batches([each.columns for each in moved])
    places = np.concatenate([each.records for each in moved if each.records is not None])
    return Decoded(rows, places, [misfit for each in moved for misfit in each.misfits])


def _moved(found: Decoded, places: npt.NDArray[np.int64], misfits: Sequence[Misfit] = ()) -> Decoded:
    """Move the records of a block to their places in a larger one, and add other misfits of that."""
    there = [Misfit(int(places[each.record]), each.reason, each.value) for each in found.misfits]
    there = sorted([*there, *misfits], key=lambda misfit: misfit.record)
    return Decoded(found.columns, places if found.records is None else places[found.records], there)


def _nothing(columns: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in columns], schema=columns)
