"""Where JSON values begin and end in a text. Only structure is examined; Spark decides whether a value is valid.

Spark takes the first value of a line and ignores what follows it. Here every value counts.
"""

import re
from collections.abc import Iterator

UNCLOSED = "the array that it begins is not closed"

_TOKEN = re.compile(
    r"""  "[^"\\]*(?:\\.[^"\\]*)*"  |  '[^'\\]*(?:\\.[^'\\]*)*'  |  [][{},]  |  [^][{},"'\s]+  |  \S  """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def values(text: str) -> Iterator[tuple[int, str, str | None]]:
    """Each value with its position and what is wrong with it, if known. An outermost array yields its values."""
    array: int | None = None  # where the outermost array begins
    start: int | None = None
    depth = 0
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if start is None:
            if sign == "[" and array is None:
                array = token.start()
                continue
            if array is not None and sign in ("]", ","):
                array = array if sign == "," else None
                continue
            start = token.start()
        depth += (sign in ("[", "{")) - (sign in ("]", "}"))
        if depth <= 0:
            yield start, text[start : token.end()], None
            start, depth = None, 0
    if start is not None:
        yield start, text[start:].rstrip(), None
    if array is not None:
        yield array, text[array : array + 100], UNCLOSED


def lone_surrogate(text: str) -> str | None:
    """The first escape that stands for half a character. Spark would turn it into a question mark."""
    high: re.Match[str] | None = None
    for escape in _ESCAPE.finditer(text):
        code = int(escape[1], 16) if escape[1] else 0
        pairs = high is not None and high.end() == escape.start() and 0xDC00 <= code < 0xE000
        if high is not None and not pairs:
            return high[0]
        if 0xDC00 <= code < 0xE000 and not pairs:
            return escape[0]
        high = escape if 0xD800 <= code < 0xDC00 else None
    return high[0] if high is not None else None
