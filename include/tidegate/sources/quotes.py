"""Finds quoted fields of CSV, one record after the other, where counting quotes is not enough.

It only searches for single characters and fixed strings. Regular expressions that repeat a group possessively match
wrongly on Python 3.11 before 3.11.5, which current distributions ship.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

UNCLOSED = "a quoted field is not closed"
UNDOUBLED = "a quote inside a quoted field is not doubled"
UNESCAPED = "a quote inside a quoted field is not escaped"


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for the end of a record. If `escape` is the quote itself, a quote inside a quoted field is doubled."""

    separator: bytes = b","
    quote: bytes = b""
    escape: bytes = b""  # empty: no quote can be inside a quoted field
    comment: bytes = b""
    line_end: bytes = b""  # empty: LF, CRLF and CR
    blanks_before: bool = False  # blanks before a quoted field are ignored
    blanks_after: bool = False  # blanks after its closing quote are ignored
    multiline: bool = True  # whether line ends inside quotes belong to the field; else every line is a record

    @property
    def doubles(self) -> bool:
        """Whether a quote in a quoted field is written twice."""
        return self.quote == self.escape


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a piece by their bounds, problems by the index of their record, and the start of the unfinished
    one."""

    bounds: list[tuple[int, int]]
    problems: dict[int, str]
    consumed: int


def scan(data: bytes, rules: Rules, final: bool, ends: Sequence[int], nexts: Sequence[int]) -> Records:
    """Return the records of a piece whose lines end at `ends` and whose next lines begin at `nexts`."""
    bounds: list[tuple[int, int]] = []
    problems: dict[int, str] = {}
    line, at = 0, 0
    while line < len(ends):
        if rules.comment and data.startswith(rules.comment, at):
            line, at = line + 1, nexts[line]
            continue
        found = _record(data, at, line, rules, final, ends)
        if found is None:
            break
        last, problem = found
        if problem is not None:
            problems[len(bounds)] = problem
        bounds.append((at, ends[last]))
        line, at = last + 1, nexts[last]
    return Records(bounds, problems, at)


def _record(
    data: bytes, at: int, line: int, rules: Rules, final: bool, ends: Sequence[int]
) -> tuple[int, str | None] | None:
    """Return the last line of the record that begins at `at`, and its problem, if any. None: it is not complete yet.

    A quote that neither opens a field nor is inside a quoted one is text. If nothing closes a field, the line is the
    record.
    """
    problem, last, since = None, line, at
    quote = data.find(rules.quote, at, ends[line]) if rules.quote else -1
    while quote >= 0:
        after = quote + 1
        if _opens(data, at, since, quote, rules):
            closing = _closing(data, after, rules, len(data) if rules.multiline else ends[last])
            if closing is None:
                return (line, UNCLOSED) if final or not rules.multiline else None
            since = after = closing + 1
            while last < len(ends) and ends[last] < after:
                last += 1
            if last == len(ends):
                return None
            if not _ends_field(data, after, rules, ends[last]):
                problem = UNDOUBLED if rules.doubles else UNESCAPED
        quote = data.find(rules.quote, after, ends[last])
    return last, problem


def _opens(data: bytes, start: int, since: int, quote: int, rules: Rules) -> bool:
    """Whether a quote is the first character of a field. `since`: the record's start, or behind a quoted field."""
    if rules.blanks_before:
        while quote > since and data[quote - 1] in b" \t" and data[quote - 1] != rules.separator[-1]:
            quote -= 1
    if len(rules.separator) > 1:  # separators may overlap: the first one counts
        field, size = since, len(rules.separator)
        while (found := data.find(rules.separator, field, quote)) >= 0:
            field = found + size
        return field == quote and (field > since or since == start)
    return quote == start or (quote > since and data[quote - 1] == rules.separator[0])


def _closing(data: bytes, at: int, rules: Rules, end: int) -> int | None:
    """Return the position of the quote that closes the field whose content begins at `at`; None if there is none."""
    if rules.escape and not rules.doubles:
        special = _either(rules.quote, rules.escape)
        while (found := special.search(data, at, end)) is not None:
            if found[0] == rules.quote:
                return found.start()
            at = found.end() + 1
        return None
    while (quote := data.find(rules.quote, at, end)) >= 0:
        if not (rules.doubles and data.startswith(rules.quote, quote + 1)):
            return quote
        at = quote + 2
    return None


def _ends_field(data: bytes, after: int, rules: Rules, end: int) -> bool:
    if rules.blanks_after:
        while after < end and data[after] in b" \t" and not data.startswith(rules.separator, after):
            after += 1
    return after == end or data.startswith(rules.separator, after)


@lru_cache(maxsize=8)
def _either(quote: bytes, escape: bytes) -> re.Pattern[bytes]:
    return re.compile(b"[" + re.escape(quote) + re.escape(escape) + b"]")


def fields(record: bytes, rules: Rules) -> Iterator[bytes]:
    """Yield the fields of a record without problems, without quotes and escape characters."""
    for start, begin, closing, end in _spans(record, rules):
        yield record[start:end] if closing is None else _plain(record[begin + 1 : closing], rules)


def raw_fields(record: bytes, rules: Rules) -> Iterator[bytes]:
    """Yield the fields of a record without problems, unchanged."""
    for start, _, _, end in _spans(record, rules):
        yield record[start:end]


def _spans(record: bytes, rules: Rules) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield the start of each field, the start of its content, its closing quote, and its end."""
    at = 0
    while at <= len(record):
        begin = at
        if rules.blanks_before:
            while begin < len(record) and record[begin] in b" \t" and not record.startswith(rules.separator, begin):
                begin += 1
        closing = None
        if rules.quote and record.startswith(rules.quote, begin):
            closing = _closing(record, begin + 1, rules, len(record))
        end = record.find(rules.separator, at if closing is None else closing + 1)
        end = len(record) if end < 0 else end
        yield at, begin, closing, end
        at = end + len(rules.separator)


def _plain(content: bytes, rules: Rules) -> bytes:
    if not rules.escape:
        return content
    return re.sub(re.escape(rules.escape) + b"([" + re.escape(rules.quote + rules.escape) + b"])", rb"\1", content)
