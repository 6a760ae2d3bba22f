"""KLL sketches of doubles in the format of Apache DataSketches, readable by its library and by Spark's functions.

The library draws a random bit for each compaction, and its generator cannot be seeded, so a retry would stage other
rows. Here the bit is a function of the compacted values. Values enter a sketch sorted, so it depends on the values and
not on their order, and two sketches merge into the same one in either order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_FAMILY, _SHORTEST_LEVEL = 15, 8
_LEVEL_ZERO_SORTED, _SINGLE_ITEM = 2, 4
#: The header: number of longs, version, family, flags, k, the shortest level; then the number of values, k again,
#: levels.
_HEAD, _REST = Struct("<BBBBHBx"), Struct("<QHBx")
_MASK = (1 << 64) - 1


@dataclass(eq=False)
class Kll:
    """`levels[i]` has sorted values, each of which represents 2^i values. `low` and `high` are the extremes of all
    `n`."""

    k: int
    n: int
    low: float
    high: float
    levels: list[Floats]

    @classmethod
    def of(cls, k: int, values: Floats) -> "Kll":
        """Return a sketch of some values, sorted. It may hold too many of them: see `compressed`."""
        return cls(k, len(values), float(values[0]), float(values[-1]), [values])

    @classmethod
    def from_bytes(cls, data: bytes) -> "Kll":
        """Parse the bytes of a sketch. Raise `ValueError` or `struct.error` for other bytes."""
        _, _, family, flags, k, _ = _HEAD.unpack_from(data)
        if family != _FAMILY:
            raise ValueError(f"family {family} is not KLL")
        if flags & _SINGLE_ITEM:
            return cls.of(k, np.frombuffer(data, np.float64, 1, _HEAD.size))
        n, _, height = _REST.unpack_from(data, _HEAD.size)
        at = _HEAD.size + _REST.size
        *bounds, low, high = _levels(height).unpack_from(data, at)
        bounds.append(capacity(k, height))
        items = np.frombuffer(data, np.float64, bounds[-1] - bounds[0], at + 4 * height + 16)
        cuts = [bound - bounds[0] for bound in bounds]
        return cls(k, n, low, high, [items[a:b] for a, b in pairwise(cuts)])

    def to_bytes(self) -> bytes:
        if self.n == 1:
            return _HEAD.pack(2, 2, _FAMILY, _SINGLE_ITEM, self.k, _SHORTEST_LEVEL) + self.levels[0].tobytes()
        height = len(self.levels)
        sizes = [len(level) for level in self.levels]
        bounds = accumulate([capacity(self.k, height) - sum(sizes), *sizes[:-1]])
        head = _HEAD.pack(5, 1, _FAMILY, _LEVEL_ZERO_SORTED, self.k, _SHORTEST_LEVEL)
        rest = _REST.pack(self.n, self.k, height)
        bounds_and_extremes = _levels(height).pack(*bounds, self.low, self.high)
        return b"".join([head, rest, bounds_and_extremes, *(level.tobytes() for level in self.levels)])

    def compressed(self) -> "Kll":
        """Return the sketch within its capacity. The lowest full level passes half of its values, each of which then
        counts twice, to the level above."""
        levels, sizes = list(self.levels), [len(level) for level in self.levels]
        while sum(sizes) > capacity(self.k, len(levels)):
            full = next(at for at, size in enumerate(sizes) if size >= room(self.k, len(levels) - 1 - at))
            level = levels[full]
            rest, pairs = level[: len(level) % 2], level[len(level) % 2 :]
            half = pairs[_coin(self.n, full, pairs) :: 2]
            above = levels[full + 1] if full + 1 < len(levels) else half[:0]
            levels[full : full + 2] = [rest, np.sort(np.concatenate([above, half]), kind="stable")]
            sizes = [len(part) for part in levels]
        return Kll(self.k, self.n, self.low, self.high, levels)


def merged(sketches: Iterable[Kll]) -> Kll:
    """Return one sketch of the values of all sketches, which share `k`. It does not depend on their order."""
    parts = list(sketches)
    if len(parts) == 1:
        return parts[0].compressed()
    levels = [
        np.sort(np.concatenate([part.levels[at] for part in parts if at < len(part.levels)]))
        for at in range(max(len(part.levels) for part in parts))
    ]
    low, high = min(part.low for part in parts), max(part.high for part in parts)
    return Kll(parts[0].k, sum(part.n for part in parts), low, high, levels).compressed()


def _coin(n: int, level: int, values: Floats) -> int:
    """Return 0 or 1, with equal chances (SplitMix64)."""
    mixed: Any = n * 0x9E3779B97F4A7C15 + (level << 32) + len(values) + int(values[len(values) // 2].view(np.uint64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed & _MASK) ^ ((mixed & _MASK) >> shift)) * factor
    return int((mixed & _MASK) >> 31) & 1


@cache
def _levels(height: int) -> Struct:
    """Return the format of the starts of levels and the extremes."""
    return Struct(f"<{height}I2d")


@cache
def capacity(k: int, height: int) -> int:
    """Return how many values a sketch with this number of levels holds."""
    return sum(room(k, depth) for depth in range(height))


@cache
def room(k: int, depth: int) -> int:
    """Return how many values a level holds at a depth below the top: two thirds of the level above."""
    if depth > 30:
        return max(_SHORTEST_LEVEL, _share(_share(k, depth // 2), depth - depth // 2))
    return max(_SHORTEST_LEVEL, _share(k, depth))


def _share(k: int, depth: int) -> int:
    return ((2 * k << depth) // int(3**depth) + 1) // 2
