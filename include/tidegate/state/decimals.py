"""Exact sums of decimals, vectorised: 128-bit numbers as four 32-bit limbs that numpy can add without overflow."""

from typing import cast

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_MASK = np.uint64(0xFFFFFFFF)


def limbs_of(words: npt.NDArray[np.uint64]) -> Ints:
    """Convert (n, 2) unsigned words, low first, to (n, 4) limbs. The highest carries the sign."""
    limbs = np.empty((len(words), 4), np.int64)
    for word in (0, 1):
        limbs[:, 2 * word] = words[:, word] & _MASK
        limbs[:, 2 * word + 1] = words[:, word] >> np.uint64(32)
    limbs[:, 3] = words[:, 1].view(np.int64) >> 32
    return limbs


def words_of(limbs: Ints, precision: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Convert sums of limbs back to words. Also return which of them do not fit into `precision` digits."""
    carried = limbs.copy()
    for at in range(3):
        carried[:, at + 1] += carried[:, at] >> 32
        carried[:, at] &= 0xFFFFFFFF
    unsigned = carried.view(np.uint64)
    words = np.empty((len(limbs), 2), np.uint64)
    words[:, 0] = unsigned[:, 0] | (unsigned[:, 1] << np.uint64(32))
    words[:, 1] = unsigned[:, 2] | (unsigned[:, 3] << np.uint64(32))
    top = carried[:, 3]
    too_large = (top < -(2**31)) | (top >= 2**31)
    return words, too_large | ~_within(words, 10**precision - 1)


def _within(words: npt.NDArray[np.uint64], largest: int) -> npt.NDArray[np.bool_]:
    low, high = words[:, 0], words[:, 1].view(np.int64)
    top_high, top_low = np.int64(largest >> 64), np.uint64(largest & (2**64 - 1))
    bottom = -largest & (2**128 - 1)
    bottom_high, bottom_low = np.uint64(bottom >> 64).view(np.int64), np.uint64(bottom & (2**64 - 1))
    not_above = (high < top_high) | ((high == top_high) & (low <= top_low))
    not_below = (high > bottom_high) | ((high == bottom_high) & (low >= bottom_low))
    return cast("npt.NDArray[np.bool_]", not_above & not_below)
