"""Where the records of a text file begin and end: lines, or lines joined by quotes as in RFC 4180.

Spark parses what is inside a record (`parsing.py`). Line ends are LF, CRLF and CR, in any mixture, unless one is
declared. The common case is found by arithmetic on whole pieces. A piece with a stray quote goes through a regular
expression.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Flags = npt.NDArray[np.bool_]
    Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rules:
    """How records end. `escape` may be the quote itself; a quote inside a quoted field is then doubled."""

    separator: bytes = b","
    quote: bytes = b""
    escape: bytes = b""
    comment: bytes = b""
    line_end: bytes = b""  # empty: LF, CRLF and CR
    padded_quotes: bool = False  # blanks before a quoted field do not count
    multiline: bool = True  # whether line ends inside quotes belong to the field; else every line is a record

    @property
    def doubles(self) -> bool:
        """Whether a quote in a quoted field is written twice and nothing may follow the closing one."""
        return self.quote == self.escape


@dataclass(frozen=True, slots=True)
class Split:
    """Records of a piece by where they begin and end, line ends excluded. `lines` counts from 0 at the piece's start.

    The records take `consumed` bytes and `consumed_lines`; what follows is not a whole record yet. `problems` are by
    index.
    """

    starts: "Positions"
    ends: "Positions"
    lines: "Positions"
    consumed: int
    consumed_lines: int
    problems: dict[int, str] = field(default_factory=dict)


UNCLOSED = "a quoted field is not closed"
UNDOUBLED = "a quote inside a quoted field is not doubled"


def split(data: bytes, rules: Rules, final: bool) -> Split:
    """The records of a piece that starts at the beginning of a record. `final`: nothing follows the piece."""
    import numpy as np

    array = np.frombuffer(data, np.uint8)
    ends, nexts = line_ends(array, data, rules.line_end, final)
    joined = bool(rules.multiline and rules.quote and rules.quote in data)
    if rules.comment or (joined and not _is_regular(array, data, rules, final)):
        return _by_expression(data, rules, final, nexts)
    record_ends, record_nexts = ends, nexts
    if joined:
        outside = np.searchsorted(np.flatnonzero(array == rules.quote[0]), ends) % 2 == 0
        record_ends, record_nexts = ends[outside], nexts[outside]
    starts = np.concatenate([np.zeros(1, np.int64), record_nexts])[: len(record_ends)]
    consumed = int(record_nexts[-1]) if len(record_nexts) else 0
    return Split(starts, record_ends, *_counted(starts, nexts, consumed))


def line_ends(array: "Bytes", data: bytes, line_end: bytes, final: bool) -> "tuple[Positions, Positions]":
    """Where each line ends and where the next begins. Text after the last line end is a line only if `final`."""
    import numpy as np

    if line_end:
        ends = np.flatnonzero(array == line_end[0])
        nexts = ends + 1
    else:
        feeds = np.flatnonzero(array == 10)
        ends, nexts = feeds, feeds + 1
        if b"\r" in data:
            returns = np.flatnonzero(array == 13)
            if not final:  # the next piece says whether a feed follows
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


def _is_regular(array: "Bytes", data: bytes, rules: Rules, final: bool) -> bool:
    """Whether every quote opens a field, closes one, or is doubled inside one, so that counting quotes is enough."""
    import numpy as np

    if not rules.doubles and rules.escape and rules.escape in data:
        return False
    quotes = np.flatnonzero(array == rules.quote[0])
    if final and len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    breaks = [rules.line_end[0]] if rules.line_end else [10, 13]
    before = array[np.maximum(opening - 1, 0)]
    opens = (opening == 0) | np.isin(before, [rules.separator[-1], *breaks])
    after = array[np.minimum(closing + 1, len(array) - 1)]
    closes = (closing == len(array) - 1) | np.isin(after, [rules.separator[0], *breaks])
    doubled = quotes[2::2] - 1 == quotes[1::2][: len(quotes[2::2])]
    opens[1:] |= doubled
    closes[: len(doubled)] |= doubled
    return bool(opens.all() and closes.all())


def _counted(starts: "Positions", nexts: "Positions", consumed: int) -> "tuple[Positions, int, int]":
    import numpy as np

    lines = np.searchsorted(nexts, starts, side="right")
    return lines, consumed, int(np.searchsorted(nexts, consumed, side="right"))


def _by_expression(data: bytes, rules: Rules, final: bool, nexts: "Positions") -> Split:
    """Find one record after the other: the slow way, for stray quotes and for comments."""
    import numpy as np

    lenient, strict, line = _expressions(rules)
    bounds: list[tuple[int, int]] = []
    problems: dict[int, str] = {}
    at = 0
    while at < len(data):
        comment = bool(rules.comment) and data.startswith(rules.comment, at)
        match = (line if comment else lenient).match(data, at)
        end = match.end() if match else at
        following = _following(data, end, rules.line_end, final)
        if following is None and final:  # it stops at a quote that is never closed: the line is a record
            end = _end(line, data, at)
            following = _following(data, end, rules.line_end, final)
            problems[len(bounds)] = UNCLOSED
        elif following is not None and rules.doubles and rules.multiline and not comment:
            exact = strict.match(data, at)
            if exact is None or exact.end() != end:
                problems[len(bounds)] = UNDOUBLED
        if following is None:
            break
        if not comment:
            bounds.append((at, end))
        at = following
    starts = np.array([start for start, _ in bounds], np.int64)
    ends = np.array([end for _, end in bounds], np.int64)
    return Split(starts, ends, *_counted(starts, nexts, at), problems)


def _end(line: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = line.match(data, at)
    return match.end() if match else at


def _following(data: bytes, end: int, line_end: bytes, final: bool) -> int | None:
    """Where the next record begins if a line ends here."""
    if end == len(data):
        return end if final else None
    if line_end:
        return end + 1 if data.startswith(line_end, end) else None
    if data.startswith(b"\r\n", end):
        return end + 2
    if data[end] == 13 and end + 1 == len(data) and not final:
        return None
    return end + 1 if data[end] in b"\r\n" else None


@lru_cache(maxsize=8)
def _expressions(rules: Rules) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """Expressions for a record with anything after its closing quotes, for an exact record, and for a line."""
    breaks = re.escape(rules.line_end) if rules.line_end else rb"\r\n"
    separator = re.escape(rules.separator)
    plain = rb"(?:(?!%b)[^%b])*+" % (separator, breaks)
    line = re.compile(rb"[^%b]*+" % breaks, re.DOTALL)
    if not (rules.quote and rules.multiline):
        return line, line, line
    quote, escape = re.escape(rules.quote), re.escape(rules.escape or rules.quote)
    inside = rb"(?:[^%b]++|%b%b)*+" % (quote, quote, quote)
    if not rules.doubles and rules.escape:
        inside = rb"(?:[^%b%b]++|%b.)*+" % (quote, escape, escape)
    padding = rb"[ \t]*+" if rules.padded_quotes else b""
    quoted = padding + quote + inside + quote
    unquoted = rb"(?!%b%b)%b" % (padding, quote, plain)

    def record(field: bytes) -> re.Pattern[bytes]:
        return re.compile(rb"(?:%b)(?:%b(?:%b))*+" % (field, separator, field), re.DOTALL)

    return record(quoted + plain + b"|" + unquoted), record(quoted + padding + b"|" + unquoted), line
