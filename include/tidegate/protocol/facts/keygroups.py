"""Key groups: the unit in which keyed state moves when the parallelism changes (docs/reference/state-format.md).

A key group is the high bits of the key's 64-bit hash, so it is monotonic in the hash. A subtask owns a contiguous range
of key groups, and so a contiguous range of hashes.
"""

from dataclasses import dataclass

MAX_PARALLELISM_LIMIT = 32768


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """Key groups `first` to `last`, both included."""

    first: int
    last: int

    def overlaps(self, other: "KeyGroupRange") -> bool:
        return self.first <= other.last and other.first <= self.last


def key_group_of(key_hash: int, max_parallelism: int) -> int:
    """Return the key group of an unsigned 64-bit key hash."""
    return ((key_hash >> 32) * max_parallelism) >> 32


def subtask_of(key_group: int, parallelism: int, max_parallelism: int) -> int:
    """Return the index of the subtask that owns a key group (protocol.md section 14)."""
    return key_group * parallelism // max_parallelism


def key_groups_of(subtask_index: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """Return the key groups of a subtask: `[ceil(i*G/p), floor(((i+1)*G - 1)/p)]` (protocol.md section 14)."""
    first = -(-subtask_index * max_parallelism // parallelism)
    last = ((subtask_index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(first, last)


def default_max_parallelism(parallelism: int) -> int:
    """Return a power of two, at least 128, that leaves room to grow by half (protocol.md section 14)."""
    wanted: int = 1 << (parallelism + parallelism // 2 - 1).bit_length()
    return min(max(wanted, 128), MAX_PARALLELISM_LIMIT)


def covering(groups: KeyGroupRange, max_parallelism: int, other: int) -> KeyGroupRange:
    """Translate key groups from `max_parallelism` to `other` as max parallelism: the result covers all their keys."""
    low, high = hashes_of(groups, max_parallelism)
    return KeyGroupRange(key_group_of(low, other), key_group_of(high, other))


def hashes_of(groups: KeyGroupRange, max_parallelism: int) -> tuple[int, int]:
    """Return the smallest and the largest unsigned hash of the key groups, both included."""
    low = -(-(groups.first << 32) // max_parallelism) << 32
    high = (-(-((groups.last + 1) << 32) // max_parallelism) << 32) - 1
    return low, high
