"""Arrow columns for numpy: views, equality of keys, and codes that order as Spark does.

A view ignores validity: the value under a null is undefined, so callers use `valid` as well. Arrays are created and
read by their buffers, because `pyarrow.array` and `to_numpy` import pandas. Executors may not have pandas, and
importing it costs a fresh worker half a second.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.state.type_names import stored_type

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]
_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_SIGN = np.uint64(1 << 63)


def one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a `ChunkedArray` as one `Array`, without a copy if it has one chunk."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 0:
        return pa.nulls(0, column.type)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return an empty `pyarrow.Table`."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def plain(name: str, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array of the type that state uses for it."""
    wanted = stored_type(name, column.type)
    return one_chunk(column if column.type == wanted else column.cast(wanted))


def hashes_of_column(column: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return the `_hash` column as unsigned numbers, the order of runs."""
    return fixed(one_chunk(column)).view(np.uint64)


def sorted_order(hashes: Hashes) -> Ints:
    """Return the stable order by hash. Two radix passes (numpy's for 16 bits) over the high half leave almost nothing
    to sort, which is faster than one `argsort`."""
    order = np.argsort(_digit(hashes, 32), kind="stable")
    order = order[np.argsort(_digit(hashes, 48)[order], kind="stable")]
    ordered = hashes[order]
    if (ordered[1:] < ordered[:-1]).any():
        order = order[np.argsort(ordered, kind="stable")]
    return order


def distinct(hashes: Hashes) -> Hashes:
    """Return the sorted distinct hashes. numpy's `unique` is slower, because it builds a hash table first."""
    ordered = np.sort(hashes)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def _digit(hashes: Hashes, shift: int) -> npt.NDArray[np.uint16]:
    return (hashes >> np.uint64(shift)).astype(np.uint16)


def fixed(array: pa.Array) -> npt.NDArray[Any]:
    """Return a fixed-width array's values: floats as floats, decimals as pairs of unsigned words (low, high), else
    ints."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return flags(array)
    words = 2 if pa.types.is_decimal128(kind) else 1
    if words == 2:
        dtype: Any = np.uint64
    elif pa.types.is_floating(kind):
        dtype = np.float32 if kind.bit_width == 32 else np.float64
    else:
        dtype = _WIDTHS[kind.bit_width]
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros((len(array), 2) if words == 2 else len(array), dtype)
    values = np.frombuffer(buffer, dtype, len(array) * words, array.offset * words * np.dtype(dtype).itemsize)
    return values.reshape(-1, 2) if words == 2 else values


def valid(array: pa.Array) -> Bools | None:
    """Return which rows are not null; None if all are."""
    if array.null_count == 0:
        return None
    return flags(array.is_valid())


def from_fixed(kind: pa.DataType, values: npt.NDArray[Any], is_valid: Bools | None = None) -> pa.Array:
    """Return an Arrow array: the reverse of `fixed` for integers, floats, dates, timestamps and decimals."""
    validity = None if is_valid is None else _bits(is_valid)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [validity, data])


def flags(array: pa.Array) -> Bools:
    """Return a boolean array's bits as numpy booleans. The value under a null is undefined."""
    buffer, first = array.buffers()[1], array.offset % 8
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), np.bool_)
    packed = np.frombuffer(buffer, np.uint8)[array.offset // 8 : (array.offset + len(array) + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[first : first + len(array)].view(np.bool_)


def booleans(values: Bools) -> pa.Array:
    """Return an Arrow array of numpy booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def integers(values: npt.NDArray[Any]) -> pa.Array:
    """Return an Arrow array of bigint over numpy integers of 64 bits, signed or not."""
    return from_fixed(pa.int64(), values)


def _bits(values: Bools) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def canonical_key(array: pa.Array) -> pa.Array:
    """Return key values as Spark groups them: -0.0 becomes 0.0, and there is one NaN."""
    if not pa.types.is_floating(array.type):
        return array
    values = fixed(array) + fixed(array).dtype.type(0)
    values[np.isnan(values)] = np.nan
    return from_fixed(array.type, values, valid(array))


def same_rows(left: list[pa.Array], right: list[pa.Array], length: int) -> Bools:
    """Compare two lists of key columns of equal types row by row. Nulls are equal."""
    same = np.ones(length, np.bool_)
    for a, b in zip(left, right, strict=True):
        same &= _same_values(a, b)
    return same


def key_classes(columns: list[pa.Array], rows: Ints) -> Ints:
    """Number some rows so that equal keys have equal numbers. It works column by column, so it costs more than
    comparing neighbours, and is for rows that share a hash."""
    classes, places = np.zeros(len(rows), np.int64), integers(rows)
    for column in columns:
        if not pa.types.is_null(column.type):
            codes = fixed(pc.dictionary_encode(column.take(places), "encode").indices.cast(pa.int64()))
            classes = np.unique(classes * (len(rows) + 1) + codes, return_inverse=True)[1].astype(np.int64)
    return classes


def _same_values(a: pa.Array, b: pa.Array) -> Bools:
    if pa.types.is_null(a.type):
        return np.ones(len(a), np.bool_)
    if pa.types.is_list(a.type):
        return _same_lists(a, b)
    if pa.types.is_struct(a.type):
        return same_rows(a.flatten(), b.flatten(), len(a))
    if pa.types.is_string(a.type) or pa.types.is_binary(a.type):
        same = flags(pc.equal(a, b))
    elif pa.types.is_floating(a.type):
        width = _WIDTHS[a.type.bit_width]
        same = fixed(a).view(width) == fixed(b).view(width)
    else:
        same = fixed(a) == fixed(b)
        same = same.all(axis=1) if same.ndim == 2 else same
    if a.null_count or b.null_count:
        a_valid, b_valid = flags(a.is_valid()), flags(b.is_valid())
        same = np.where(a_valid & b_valid, same, a_valid == b_valid)
    return same


def _same_lists(a: pa.Array, b: pa.Array) -> Bools:
    sizes, others = lengths(a), lengths(b)
    same: Bools = (sizes == others) & (flags(a.is_valid()) == flags(b.is_valid()))
    chosen = np.flatnonzero(same)
    left, right = (canonical_key(array.take(integers(chosen)).flatten()) for array in (a, b))
    of = np.repeat(chosen, sizes[chosen])
    same[of[~_same_values(left, right)]] = False
    return same


def lengths(lists: pa.Array) -> Ints:
    """Return the number of values in each list, 0 where it is null."""
    sizes = fixed(pc.list_value_length(lists)).astype(np.int64)
    if (is_valid := valid(lists)) is not None:
        sizes[~is_valid] = 0
    return sizes


def order_codes(array: pa.Array) -> Ints:
    """Return numbers that compare as Spark compares the values: NaN above all, -0.0 equal to 0.0, strings by their
    bytes.

    Only codes of one array compare. To compare two arrays, concatenate them first.
    """
    kind = array.type
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return fixed(pc.rank(array, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)
    values = fixed(array)
    if pa.types.is_decimal128(kind):
        return _decimal_codes(values)
    if pa.types.is_floating(kind):
        numbers = values.astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        return _flipped(numbers.view(np.int64))
    return values.astype(np.int64, copy=False)


def decoded(codes: Ints, kind: pa.DataType) -> npt.NDArray[Any]:
    """Return the values of integers, dates, timestamps and floats from their order codes, in the form of `fixed`."""
    if pa.types.is_floating(kind):
        return _flipped(codes).view(np.float64).astype(np.float32 if kind.bit_width == 32 else np.float64, copy=False)
    return codes.astype(_WIDTHS[kind.bit_width], copy=False)


def is_decodable(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind)) and not pa.types.is_boolean(kind)


def _flipped(bits: Ints) -> Ints:
    """Convert bits of doubles to numbers of the same order, and back."""
    flipped: Ints = bits ^ ((bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF))
    return flipped


def _decimal_codes(words: npt.NDArray[np.uint64]) -> Ints:
    low, high = words[:, 0], words[:, 1].view(np.int64)
    if np.array_equal(low.view(np.int64) >> 63, high):
        return np.ascontiguousarray(low).view(np.int64)
    order = np.lexsort((low, high))
    steps = np.zeros(len(order), np.int64)
    steps[1:] = (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])
    codes = np.empty(len(order), np.int64)
    codes[order] = np.cumsum(steps)
    return codes
