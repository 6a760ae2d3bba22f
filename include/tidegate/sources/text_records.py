"""Divides a text file into records: lines, or lines joined by quotes as in RFC 4180.

Spark parses the content of a record (`parsing.py`). Line ends are LF, CRLF and CR, in any mixture, unless one is
declared. The common case is found by arithmetic on whole pieces. A piece with a stray quote is read record by record
(`quotes.py`).
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidegate.sources.quotes import Rules, scan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]
    Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Split:
    """Records of a piece by their starts and ends, without line ends. `lines` counts from 0 at the piece's start.

    The records take `consumed` bytes and `consumed_lines`. The rest is not a complete record yet. `problems` are by
    index.
    """

    starts: "Positions"
    ends: "Positions"
    lines: "Positions"
    consumed: int
    consumed_lines: int
    problems: dict[int, str] = field(default_factory=dict)


def split(data: bytes, rules: Rules, final: bool) -> Split:
    """Return the records of a piece that starts at the beginning of a record. `final`: nothing follows the piece."""
    import numpy as np

    array = np.frombuffer(data, np.uint8)
    ends, nexts = line_ends(array, data, rules.line_end, final)
    quotes = np.flatnonzero(array == rules.quote[0]) if rules.quote and rules.quote in data else None
    outside = np.ones(len(ends), bool) if quotes is None else np.searchsorted(quotes, ends) % 2 == 0
    regular = quotes is None or (
        (rules.multiline or bool(outside.all())) and _is_regular(array, data, rules, quotes, final)
    )
    if rules.comment or not regular:
        found = scan(data, rules, final, ends.tolist(), nexts.tolist())
        bounds = np.array(found.bounds, np.int64).reshape(-1, 2)
        return Split(bounds[:, 0], bounds[:, 1], *_counted(bounds[:, 0], nexts, found.consumed), found.problems)
    record_ends, record_nexts = ends[outside], nexts[outside]
    starts = np.concatenate([np.zeros(1, np.int64), record_nexts])[: len(record_ends)]
    consumed = int(record_nexts[-1]) if len(record_nexts) else 0
    return Split(starts, record_ends, *_counted(starts, nexts, consumed))


def line_ends(array: "Bytes", data: bytes, line_end: bytes, final: bool) -> "tuple[Positions, Positions]":
    """Return the ends of lines and the starts of the next ones. Text after the last line end is a line if `final`."""
    import numpy as np

    if line_end:
        ends = np.flatnonzero(array == line_end[0])
        nexts = ends + 1
    else:
        feeds = np.flatnonzero(array == 10)
        ends, nexts = feeds, feeds + 1
        if b"\r" in data:
            returns = np.flatnonzero(array == 13)
            if not final:  # the next piece tells whether a feed follows
                returns = returns[returns < len(array) - 1]
            paired = np.isin(returns + 1, feeds, assume_unique=True)
            ends = feeds - np.isin(feeds - 1, returns[paired], assume_unique=True)
            ends = np.concatenate([ends, returns[~paired]])
            nexts = np.concatenate([nexts, returns[~paired] + 1])
            ends.sort()
            nexts.sort()
    if final and len(array) > (nexts[-1] if len(nexts) else 0):
        ends, nexts = np.append(ends, len(array)), np.append(nexts, len(array))
    return ends, nexts


def _is_regular(array: "Bytes", data: bytes, rules: Rules, quotes: "Positions", final: bool) -> bool:
    """Whether every quote opens a field, closes one, or is doubled inside one, so that counting quotes is enough."""
    import numpy as np

    if len(rules.separator) > 1 or (not rules.doubles and rules.escape and rules.escape in data):
        return False
    if final and len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    breaks = [rules.line_end[0]] if rules.line_end else [10, 13]
    before = array[np.maximum(opening - 1, 0)]
    opens = (opening == 0) | np.isin(before, [rules.separator[0], *breaks])
    after = array[np.minimum(closing + 1, len(array) - 1)]
    closes = (closing == len(array) - 1) | np.isin(after, [rules.separator[0], *breaks])
    if rules.doubles:
        doubled = quotes[2::2] - 1 == quotes[1::2][: len(quotes[2::2])]
        opens[1:] |= doubled
        closes[: len(doubled)] |= doubled
    return bool(opens.all() and closes.all())


def _counted(starts: "Positions", nexts: "Positions", consumed: int) -> "tuple[Positions, int, int]":
    import numpy as np

    lines = np.searchsorted(nexts, starts, side="right")
    return lines, consumed, int(np.searchsorted(nexts, consumed, side="right"))
