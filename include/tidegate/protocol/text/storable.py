"""Make text from data, from Spark or from a user's function fit for storage, whatever it holds.

This is for text that people read, such as messages and verdicts. Text that identifies something (ids, paths, positions)
is never altered: a store refuses it if it cannot hold it. Stores call this themselves.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

#: Characters. A longer text keeps its beginning and its end, where errors have their message.
LONGEST_TEXT = 10_000

# PostgreSQL holds no NUL, and UTF-8 has no lone surrogates.
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")


def storable_text(text: str) -> str:
    """Replace characters that cannot be stored by U+FFFD, and cut a long text to `LONGEST_TEXT` and a remark."""
    if len(text) > LONGEST_TEXT:
        half = LONGEST_TEXT // 2
        text = f"{text[:half]} … ({len(text) - 2 * half} characters are left out) … {text[-half:]}"
    return _NOT_STORABLE.sub("\ufffd", text)


def storable_json(value: Any) -> Any:
    """Return a JSON value whose texts, keys included, are storable, and whose numbers are finite: NaN becomes "NaN"."""
    match value:
        case str():
            return storable_text(value)
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {storable_text(str(key)): storable_json(item) for key, item in value.items()}
        case list() | tuple():
            return [storable_json(item) for item in value]
        case _:
            return value
