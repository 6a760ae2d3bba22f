"""Spark SQL's `xxhash64` (seed 42) outside Spark, over Arrow columns, vectorised.

Rules (checked against Spark 4.2): numbers up to 32 bits, booleans and dates hash as 4 bytes; longs, timestamps, times,
intervals and decimals of up to 18 digits (their unscaled value) as 8; floats and doubles by their bits, -0.0 as 0.0;
strings and binary by their bytes; wider decimals by the fewest big-endian bytes that hold their unscaled value. A null
leaves the hash as it was. Each column's hash is the seed of the next.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.state.columns import Hashes, Ints, fixed, integers, plain, valid

SEED = 42
_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_LOW = np.uint64(0xFFFFFFFF)
_FLOAT_BITS = {32: (np.float32, np.uint32), 64: (np.float64, np.uint64)}


def spark_hash(columns: Sequence[pa.Array], rows: int | None = None) -> pa.Array:
    """Return `xxhash64(columns…)` as an Arrow array of bigint, for Arrow arrays of equal length. If there may be no
    columns, `rows` is the number of hashes."""
    hashes = np.full(len(columns[0]) if rows is None else rows, SEED, np.uint64)
    for column in columns:
        array = plain("key", column)
        if pa.types.is_null(array.type):
            continue
        hashed = _hashed(array, hashes)
        is_valid = valid(array)
        hashes = hashed if is_valid is None else np.where(is_valid, hashed, hashes)
    return integers(hashes.view(np.int64))


def key_groups(hashes: pa.Array, max_parallelism: int) -> Ints:
    """Return the key group of each hash (an Arrow array of bigint), as `protocol.facts.keygroups.key_group_of` does."""
    high = fixed(hashes).view(np.uint64) >> np.uint64(32)
    return ((high * np.uint64(max_parallelism)) >> np.uint64(32)).astype(np.int64)


def _hashed(array: pa.Array, seeds: Hashes) -> Hashes:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        data, starts, lengths = _bytes_of(array)
        return _hash_bytes(data, starts, lengths, seeds)
    if pa.types.is_decimal128(kind):
        words = fixed(array)
        if kind.precision <= 18:
            return _hash_long(np.ascontiguousarray(words[:, 0]), seeds)
        return _hash_bytes(*_unscaled_bytes(words), seeds)
    values = fixed(array)
    if pa.types.is_floating(kind):
        number, bits = _FLOAT_BITS[kind.bit_width]
        values = values + number(0)
        values[np.isnan(values)] = np.nan
        unsigned = values.view(bits)
        return _hash_int(unsigned, seeds) if bits is np.uint32 else _hash_long(unsigned, seeds)
    if kind.bit_width == 64:
        return _hash_long(values.view(np.uint64), seeds)
    return _hash_int(values.astype(np.int32).view(np.uint32), seeds)


def _hash_int(values: npt.NDArray[np.uint32], seeds: Hashes) -> Hashes:
    mixed = (seeds + _P5 + np.uint64(4)) ^ (values.astype(np.uint64) * _P1)
    return _finish(_rotated(mixed, 23) * _P2 + _P3)


def _hash_long(values: Hashes, seeds: Hashes) -> Hashes:
    mixed = (seeds + _P5 + np.uint64(8)) ^ (_rotated(values * _P2, 31) * _P1)
    return _finish(_rotated(mixed, 27) * _P1 + _P4)


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finish(values: Hashes) -> Hashes:
    values = (values ^ (values >> np.uint64(33))) * _P2
    values = (values ^ (values >> np.uint64(29))) * _P3
    return cast(Hashes, values ^ (values >> np.uint64(32)))


def _bytes_of(array: pa.Array) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
    """Return all bytes, and for each value the start and the number of its bytes."""
    buffers = array.buffers()
    if len(array) == 0:
        return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.frombuffer(buffers[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    data = np.zeros(0, np.uint8) if buffers[2] is None else np.frombuffer(buffers[2], np.uint8)
    return data, offsets[:-1], np.diff(offsets)


def _unscaled_bytes(words: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint8], Ints, Ints]:
    """Return big-endian two's complement in the fewest bytes that keep the sign, as Java's `toByteArray` does."""
    big_endian = np.ascontiguousarray(words[:, ::-1]).byteswap().view(np.uint8).reshape(-1, 16)
    sign = np.where(big_endian[:, 0] >= 128, 255, 0).astype(np.uint8)
    lengths = np.ones(len(words), np.int64)
    for at in range(15):
        shown = big_endian[:, at] != sign
        sign_kept = (big_endian[:, at + 1] >= 128) == (sign == 255)
        needed = np.where(shown, 16 - at, np.where(sign_kept, 0, 16 - at))
        lengths = np.maximum(lengths, needed)
    starts = np.arange(len(words)) * 16 + 16 - lengths
    return big_endian.reshape(-1), starts, lengths


def _hash_bytes(data: npt.NDArray[np.uint8], starts: Ints, lengths: Ints, seeds: Hashes) -> Hashes:
    """Compute XXH64. All rows step together, stripe by stripe and word by word, as long as they have bytes left."""
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    at, left = starts.copy(), lengths.copy()
    hashes = np.where(lengths >= 32, np.uint64(0), seeds + _P5)
    long_rows = np.flatnonzero(lengths >= 32)
    if len(long_rows):
        hashes[long_rows] = _stripes(words, at, left, long_rows, seeds[long_rows])
    hashes = hashes + lengths.astype(np.uint64)
    while len(rows := np.flatnonzero(left >= 8)):
        word = _rotated(words[at[rows]] * _P2, 31) * _P1
        hashes[rows] = _rotated(hashes[rows] ^ word, 27) * _P1 + _P4
        at[rows] += 8
        left[rows] -= 8
    rows = np.flatnonzero(left >= 4)
    hashes[rows] = _rotated(hashes[rows] ^ ((words[at[rows]] & _LOW) * _P1), 23) * _P2 + _P3
    at[rows] += 4
    left[rows] -= 4
    while len(rows := np.flatnonzero(left > 0)):
        hashes[rows] = _rotated(hashes[rows] ^ (padded[at[rows]].astype(np.uint64) * _P5), 11) * _P1
        at[rows] += 1
        left[rows] -= 1
    return _finish(hashes)


def _stripes(words: Hashes, at: Ints, left: Ints, rows: Ints, seeds: Hashes) -> Hashes:
    """Hash rows of 32 bytes or more. Move `at` and `left` to the remaining bytes."""
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    active = np.arange(len(rows))
    while len(active := active[left[rows[active]] >= 32]):
        place = at[rows[active]]
        for lane, values in enumerate(lanes):
            values[active] = _rotated(values[active] + words[place + 8 * lane] * _P2, 31) * _P1
        at[rows[active]] += 32
        left[rows[active]] -= 32
    hashes = sum((_rotated(v, bits) for v, bits in zip(lanes, (1, 7, 12, 18), strict=True)), np.uint64(0))
    for values in lanes:
        hashes = (hashes ^ (_rotated(values * _P2, 31) * _P1)) * _P1 + _P4
    return cast(Hashes, hashes)
