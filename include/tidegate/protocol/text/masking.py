"""Remove secrets from stored texts: credentials in URLs, and values with the name of a secret."""

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

#: Greedy: a password that was not percent-encoded may hold an @.
_USER_INFO = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]{0,30}://)[^/?#\s]*@", re.IGNORECASE)
_NAMES = "key|secret|token|password|passwd|sig|signature|credentials?|sas"
#: As in a URL's query or libpq's parameters. It matches from the beginning of a word, so that a long text is read once.
_VALUE = re.compile(rf"(?<![\w.-])([\w.-]{{0,60}}(?:{_NAMES})[\w.-]{{0,20}}=)[^\s&;#'\"]+", re.IGNORECASE)
_SECRET_NAME = re.compile(rf"(?:{_NAMES})$", re.IGNORECASE)


def masked(text: str) -> str:
    """Return the text with `***` in place of secrets. Performs no I/O."""
    return _VALUE.sub(rf"\1{MASK}", _USER_INFO.sub(rf"\1{MASK}@", text))


def holds_secret(url: str) -> bool:
    """Whether a path or URL has credentials in it. A user without a password is part of the place, as in `abfss://`.
    Performs no I/O."""
    place, _, query = url.partition("?")
    return masked(query) != query or ":" in place.partition("://")[2].rpartition("@")[0]


def masked_json(value: object) -> Any:
    """Return a JSON value with its texts masked, and with every text under the name of a secret replaced. Performs no
    I/O."""
    match value:
        case str():
            return masked(value)
        case Mapping():
            return {
                masked(str(name)): MASK if isinstance(item, str) and _is_secret(str(name)) else masked_json(item)
                for name, item in value.items()
            }
        case list() | tuple():
            return [masked_json(item) for item in value]
        case _:
            return value


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name[-40:]) is not None
