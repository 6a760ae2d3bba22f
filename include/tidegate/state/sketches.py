"""Accumulators that are sketches of Apache DataSketches, in its format, which Spark's functions also read.

The content of a sketch depends on the rows of each step and not on their order, so a retry stages the same rows. Values
enter sorted. If a sketch's bytes depend on the order of its updates, they are brought to one form. A HyperLogLog sketch
does not even depend on how rows are divided into steps. The library costs one Python call per key and step, and one per
distinct value. KLL sketches are filled by numpy (`kll.py`).
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import ceil
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tidegate.pipeline.aggregates import Aggregate
from tidegate.protocol.facts.errors import StateSchemaError
from tidegate.state.columns import Ints, fixed, from_fixed, integers
from tidegate.state.hashing import spark_hash
from tidegate.state.kll import Kll, merged
from tidegate.state.sketch_library import library
from tidegate.state.type_names import list_of
from tidegate.state.value_lists import Members, counted, offsets_of, ordered

#: The last bytes of Java's sketches of items, which are required to read them.
_END = bytes(8)
_ITEMS = list_of(pa.struct([("item", pa.string()), ("count", pa.int64())]))


class _Kind(Protocol):
    """One kind of sketch. Bytes are always those of a sketch that is not empty."""

    def additions(self, members: Members, groups: int) -> tuple[Ints, Iterator[Any]]:
        """Return how many values each group adds, and the argument of `updated` for each group that adds some, in
        order."""

    def updated(self, stored: bytes | None, addition: Any) -> bytes: ...

    def united(self, sketches: Sequence[bytes]) -> bytes: ...

    def shown(self, sketches: list[bytes | None]) -> pa.Array: ...


def updated(aggregate: Aggregate, members: Members, groups: int, known: Ints, stored: pa.Array | None) -> pa.Array:
    """Return a sketch per group, of its values and of the sketches `stored` for the groups `known`; null without
    any."""
    kind = _kind_of(aggregate)
    sketches: list[bytes | None] = [None] * groups
    if stored is not None:
        for group, sketch in zip(known.tolist(), stored.to_pylist(), strict=True):
            sketches[group] = sketch
    sizes, additions = kind.additions(members, groups)
    with _reading(aggregate):
        for group, addition in zip(np.flatnonzero(sizes).tolist(), additions, strict=True):
            sketches[group] = kind.updated(sketches[group], addition)
    return _binary(sketches, pa.binary())


def united(aggregate: Aggregate, stored: pa.Array, starts: Ints) -> pa.Array:
    """Return a sketch per group, of all stored ones from one start to the next."""
    kind, rows = _kind_of(aggregate), stored.to_pylist()
    sketches: list[bytes | None] = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
        present = sorted(sketch for sketch in rows[start:stop] if sketch is not None)
        with _reading(aggregate):
            sketches.append(kind.united(present) if len(present) > 1 else present[0] if present else None)
    return _binary(sketches, pa.binary())


def shown(aggregate: Aggregate, stored: pa.Array) -> pa.Array:
    """Return the visible values of the aggregate."""
    with _reading(aggregate):
        return _kind_of(aggregate).shown(stored.to_pylist())


@contextmanager
def _reading(aggregate: Aggregate) -> Iterator[None]:
    """Raise `StateSchemaError` for bytes that are not a sketch. A user may have given them to `savepoint.edit`."""
    try:
        yield
    except (ValueError, RuntimeError, IndexError, struct.error) as error:
        raise StateSchemaError(
            f"The value stored for {aggregate.in_state('_')} is not a sketch of Apache DataSketches of its kind "
            f"({error}). Nothing was written. If the state was edited, edit it again, with bytes that "
            "Spark's function returns."
        ) from error


def _kind_of(aggregate: Aggregate) -> _Kind:
    match aggregate.function:
        case "approx_count_distinct":
            return _Distinct(aggregate.option("rsd"))
        case "approx_top_k":
            return _Frequent(aggregate.option("k"), aggregate.option("max_items_tracked"))
    return _Quantiles(aggregate.option("k"), aggregate.option("percentage"))


class _Distinct:
    """HyperLogLog. Integers and strings are hashed as by Spark's `hll_sketch_agg`, so that the two can be united.
    Values of other types are hashed by Spark's `xxhash64`."""

    _OUT_OF_ORDER, _LIST, _SET, _REGISTERS = 16, 0, 1, 2

    def __init__(self, rsd: float) -> None:
        self._size = ceil(np.log2((1.04 / rsd) ** 2))

    def additions(self, members: Members, groups: int) -> tuple[Ints, Iterator[Any]]:
        (column,) = members.columns
        if not pa.types.is_string(column.type) and len(column):
            whole = pa.types.is_integer(column.type)
            column = integers(fixed(column).astype(np.int64)) if whole else spark_hash([column])
        values, sizes, _ = counted(Members(members.groups, [column]), groups)
        listed: list[Any] = values.to_pylist() if pa.types.is_string(column.type) else fixed(values).tolist()
        return sizes, _divided(listed, sizes)

    def updated(self, stored: bytes | None, addition: Sequence[Any]) -> bytes:
        hll = library().hll_sketch
        sketch = hll(self._size, library().HLL_8) if stored is None else hll.deserialize(stored)
        for value in addition:
            sketch.update("\0" if value == "" else value)  # the library ignores an empty string
        return self._in_one_form(sketch)

    def united(self, sketches: Sequence[bytes]) -> bytes:
        union = library().hll_union(self._size)
        for sketch in sketches:
            union.update(library().hll_sketch.deserialize(sketch))
        return self._in_one_form(union.get_result(library().HLL_8))

    def shown(self, sketches: list[bytes | None]) -> pa.Array:
        read = library().hll_sketch.deserialize
        return integers(np.array([0 if s is None else round(read(s).get_estimate()) for s in sketches], np.int64))

    def _in_one_form(self, sketch: Any) -> bytes:
        """Return bytes that do not depend on the order of updates. The entries of a list or set are sorted. From
        registers, the record of the order is removed, which would make the estimate slightly more exact."""
        data = bytearray(sketch.serialize_compact())
        mode = data[7] & 3
        if mode == self._REGISTERS:
            data[5] |= self._OUT_OF_ORDER
            data[8:16] = bytes(8)
        else:
            start = 8 if mode == self._LIST else 12
            data[start:] = np.sort(np.frombuffer(data, np.uint32, offset=start)).tobytes()
        return bytes(data)


class _Quantiles:
    """KLL sketches of doubles."""

    def __init__(self, k: int, percentage: float | tuple[float, ...]) -> None:
        self._k = k
        self._ranks = percentage

    def additions(self, members: Members, groups: int) -> tuple[Ints, Iterator[Any]]:
        (column,) = members.columns
        numbers = fixed(column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column).astype(np.float64)
        is_number = ~np.isnan(numbers)
        values, sizes = ordered(
            Members(members.groups[is_number], [from_fixed(pa.float64(), numbers[is_number])]), groups
        )
        return sizes, _divided(fixed(values), sizes)

    def updated(self, stored: bytes | None, addition: Any) -> bytes:
        new = Kll.of(self._k, addition)
        return merged([new] if stored is None else [Kll.from_bytes(stored), new]).to_bytes()

    def united(self, sketches: Sequence[bytes]) -> bytes:
        return merged(map(Kll.from_bytes, sketches)).to_bytes()

    def shown(self, sketches: list[bytes | None]) -> pa.Array:
        read = library().kll_doubles_sketch.deserialize
        ranks = self._ranks if isinstance(self._ranks, tuple) else (self._ranks,)
        there = np.array([sketch is not None for sketch in sketches], np.bool_)
        found = [[read(s).get_quantile(rank, True) for rank in ranks] for s in sketches if s is not None]
        if not isinstance(self._ranks, tuple):
            numbers = np.zeros(len(sketches))
            numbers[there] = [number for (number,) in found]
            return from_fixed(pa.float64(), numbers, there)
        numbers = np.array(list(chain.from_iterable(found)), np.float64)
        return _lists(from_fixed(pa.float64(), numbers), there.astype(np.int64) * len(ranks), there)


class _Frequent:
    """Frequent items by their text. Spark's `approx_top_k_estimate` reads such sketches of strings."""

    def __init__(self, k: int, tracked: int) -> None:
        self._k = k
        self._size = max(3, ceil(np.log2(tracked / 0.75)))
        self._every = library().frequent_items_error_type.NO_FALSE_POSITIVES

    def additions(self, members: Members, groups: int) -> tuple[Ints, Iterator[Any]]:
        (column,) = members.columns
        values, sizes, often = counted(members, groups)
        pairs = list(zip(_text_of(values, column.type), often.tolist(), strict=True))
        return sizes, _divided(pairs, sizes)

    def updated(self, stored: bytes | None, addition: Sequence[tuple[str, int]]) -> bytes:
        items = library().frequent_strings_sketch
        sketch = items(self._size) if stored is None else items.deserialize(stored)
        for item, often in addition:
            sketch.update(item, often)
        return bytes(sketch.serialize()) + _END

    def united(self, sketches: Sequence[bytes]) -> bytes:
        first, *others = map(library().frequent_strings_sketch.deserialize, sketches)
        for other in others:
            first.merge(other)
        return bytes(first.serialize()) + _END

    def shown(self, sketches: list[bytes | None]) -> pa.Array:
        found = [[] if sketch is None else self._best(sketch) for sketch in sketches]
        pairs = list(chain.from_iterable(found))
        items = _binary([item.encode() for item, _ in pairs], pa.string())
        counts = integers(np.array([often for _, often in pairs], np.int64))
        structs = pa.StructArray.from_arrays([items, counts], fields=list(_ITEMS.value_type))
        there = np.array([sketch is not None for sketch in sketches], np.bool_)
        return _lists(structs, np.array([len(best) for best in found], np.int64), there)

    def _best(self, data: bytes) -> list[tuple[str, int]]:
        every = library().frequent_strings_sketch.deserialize(data).get_frequent_items(self._every)
        return sorted(((item, often) for item, often, *_ in every), key=lambda pair: (-pair[1], pair[0]))[: self._k]


def _text_of(values: pa.Array, kind: pa.DataType) -> list[str]:
    text: list[str] = (values if pa.types.is_string(kind) else values.cast(pa.string())).to_pylist()
    return text


def _divided(values: Any, sizes: Ints) -> Iterator[Any]:
    """Yield the values of each group that has some."""
    start = 0
    for size in sizes[sizes > 0].tolist():
        yield values[start : start + size]
        start += size


def _binary(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return an Arrow array of bytes or texts, without pandas."""
    sizes = np.array([0 if value is None else len(value) for value in values], np.int64)
    offsets = offsets_of(sizes)
    there = from_fixed(pa.int64(), sizes, np.array([value is not None for value in values], np.bool_))
    content = pa.py_buffer(b"".join(value for value in values if value is not None))
    return pa.Array.from_buffers(kind, len(values), [there.buffers()[0], pa.py_buffer(offsets), content])


def _lists(values: pa.Array, sizes: Ints, there: Any) -> pa.Array:
    offsets = offsets_of(sizes)
    mask = from_fixed(pa.int64(), sizes, there).buffers()[0]
    return pa.Array.from_buffers(list_of(values.type), len(sizes), [mask, pa.py_buffer(offsets)], children=[values])
