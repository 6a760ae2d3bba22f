"""Catalogs from pyiceberg's configuration, and the translation of their errors. No text contains their secrets."""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    UnauthorizedError,
)
from pyiceberg.utils.config import Config

from tidegate.iceberg import rest
from tidegate.iceberg.names import TableName
from tidegate.protocol.facts.errors import (
    MissingConnectionError,
    RowsRefusedError,
    SinkError,
    SinkUnavailableError,
)

#: Open catalogs by process and name: after a fork, open connections belong to the parent.
_OPEN: dict[tuple[int, str], Catalog] = {}
#: Credentials as servers and libraries repeat them in messages: headers, tokens, user and password of a URL.
_SECRETS = re.compile(
    r"(?i:bearer|basic)\s+[^\s'\",]+|eyJ[\w-]+\.[\w.-]+|(?<=://)[^/@\s]+(?=@)"
    r"|(?<=[?&])[^=\s&]*(?i:token|secret|credential|password|signature)[^=\s&]*=[^&\s]+"
)
#: Names of secret properties of a catalog. Their values are masked wherever they appear.
_SECRET = re.compile(r"(?i)token|credential|secret|password|authorization|key")
_LONGEST = 200
#: Shorter values are no secrets, and could be part of any word.
_SHORTEST = 4
_SAFE = "Nothing is lost: staged rows are safe, and readers see the previous rows or the whole checkpoint."


def catalog_of(table: TableName) -> Catalog:
    """Return the catalog of a table. Raise `MissingConnectionError`, `SinkError`."""
    assert table.catalog is not None
    try:
        return _opened(table.catalog)
    except ValueError as error:
        if isinstance(error, OSError):  # some errors of requests are both
            raise explained(table, error) from error
        raise MissingConnectionError(
            f"There is no catalog {table.catalog!r} for an Iceberg table ({_message(table, error)}). Nothing was "
            f"changed. Define it in .pyiceberg.yaml, or set {_variable(table)}URI, for every process that runs the "
            "pipeline."
        ) from error
    except Exception as error:
        raise explained(table, error) from error


def _opened(name: str) -> Catalog:
    """Return the open catalog. pyiceberg itself reads its configuration once in a process."""
    key = os.getpid(), name
    if key not in _OPEN:
        properties: Any = Config().get_catalog_config(name) or {}
        _OPEN[key] = rest.with_time_limit(load_catalog(name, **properties))
    return _OPEN[key]


def close_catalogs() -> None:
    """Close the catalogs that this process has open. Each is opened anew when it is needed."""
    for process, name in list(_OPEN):
        if process == os.getpid():
            _OPEN.pop((process, name)).close()


def explained(table: TableName, error: Exception) -> SinkError:
    """Return the error to raise when a request to a catalog failed."""
    where, message = f"The catalog {table.catalog!r} of table {table}", _message(table, error)
    if isinstance(error, UnauthorizedError | AuthorizationExpiredError | OAuthError):
        close_catalogs()  # a new token may be there by the next attempt
        return SinkUnavailableError(
            f"{where} does not accept the credentials of this process ({message}). {_SAFE} Set {_variable(table)}TOKEN "
            f"or {_variable(table)}CREDENTIAL anew, or the same in .pyiceberg.yaml; then repeat the step."
        )
    if isinstance(error, ForbiddenError):
        return RowsRefusedError(
            f"{where} does not allow that with the credentials of this process ({message}). {_SAFE} Have the right to "
            "read, make and change that table granted; then repeat the step."
        )
    if isinstance(error, CommitStateUnknownException):
        return SinkUnavailableError(
            f"{where} did not report whether it has carried out a commit ({message}). {_SAFE} Check that it runs, then "
            "repeat the step: it first reads the table, so nothing is committed twice."
        )
    return SinkUnavailableError(
        f"{where} cannot be used ({message}). {_SAFE} Check that it runs, then repeat the step."
    )


def _variable(table: TableName) -> str:
    return f"PYICEBERG_CATALOG__{str(table.catalog).upper()}__"


def _message(table: TableName, error: Exception) -> str:
    """Return the first line of a message, without secrets."""
    line = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    for secret in sorted(_secrets(table), key=len, reverse=True):
        line = line.replace(secret, "***")
    shown = _SECRETS.sub("***", line)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _secrets(table: TableName) -> set[str]:
    """Return the secret values, also in parts: a credential is the name and the secret of a client, joined by a
    colon."""
    properties: Any = Config().get_catalog_config(str(table.catalog)) or {}
    values = [str(value) for name, value in _flat(properties) if _SECRET.search(name)]
    return {part for value in values for part in (value, value.rpartition(":")[2]) if len(part) >= _SHORTEST}


def _flat(properties: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
