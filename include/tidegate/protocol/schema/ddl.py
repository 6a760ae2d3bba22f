"""Parse the columns of a schema that is text in Spark DDL."""

import re
from collections.abc import Iterator

_OPEN, _CLOSE = "<(", ">)"
_COLON = re.compile(r"\w+\s*:")


def columns_of(ddl: str) -> list[tuple[str, str]]:
    """Return names and types; none if the text is not a list of columns. Performs no I/O."""
    columns = [_column(part.strip()) for part in parts_of(ddl)]
    return [column for column in columns if column is not None] if all(columns) else []


def parts_of(ddl: str) -> Iterator[str]:
    """Split the text into columns at commas outside of brackets and quotes."""
    depth, quote, start = 0, "", 0
    for index, letter in enumerate(ddl):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "`'\"":
            quote = letter
        elif letter in _OPEN + _CLOSE:
            depth += 1 if letter in _OPEN else -1
        elif letter == "," and depth == 0:
            yield ddl[start:index]
            start = index + 1
    yield ddl[start:]


def _column(text: str) -> tuple[str, str] | None:
    """Parse `name type` or `name: type`, without options behind the type."""
    if text.startswith("`"):
        name, _, rest = text[1:].partition("`")
    else:
        name, _, rest = text.replace(":", " ", 1).partition(" ") if _COLON.match(text) else text.partition(" ")
    rest = rest.lstrip(" :")
    upper = rest.upper()
    for keyword in (" NOT NULL", " COMMENT ", " DEFAULT "):
        if (at := upper.find(keyword)) >= 0:
            rest, upper = rest[:at], upper[:at]
    return (name, rest.strip()) if name and rest.strip() else None
