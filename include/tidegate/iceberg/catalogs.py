"""Catalogs that pyiceberg's configuration names, and what their errors mean. No text has a secret of them."""

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

#: By process and name: after a fork, open connections are the parent's.
_OPEN: dict[tuple[int, str], Catalog] = {}
#: Credentials as servers and libraries repeat them in messages: headers, tokens, user and password of a URL.
_SECRETS = re.compile(
    r"(?i:bearer|basic)\s+[^\s'\",]+|eyJ[\w-]+\.[\w.-]+|(?<=://)[^/@\s]+(?=@)"
    r"|(?<=[?&])[^=\s&]*(?i:token|secret|credential|password|signature)[^=\s&]*=[^&\s]+"
)
#: Properties of a catalog that are secret, and so their values wherever they stand.
_SECRET = re.compile(r"(?i)token|credential|secret|password|authorization|key")
_LONGEST = 200
#: What is shorter is no secret, and may be a part of any word.
_SHORTEST = 4
_SAFE = "Nothing is lost: staged rows are safe, and readers see what they saw before, or the whole checkpoint."


def catalog_of(table: TableName) -> Catalog:
    """The catalog of a table. Raises `MissingConnectionError`, `SinkError`."""
    assert table.catalog is not None
    try:
        return _opened(table.catalog)
    except ValueError as error:
        if isinstance(error, OSError):  # some errors of requests are both
            raise explained(table, error) from error
        raise MissingConnectionError(
            f"There is no catalog {table.catalog!r} for an Iceberg table ({_said(table, error)}). Nothing was changed. "
            f"Define it in .pyiceberg.yaml, or set {_variable(table)}URI, for every process that runs the pipeline."
        ) from error
    except Exception as error:
        raise explained(table, error) from error


def _opened(name: str) -> Catalog:
    """pyiceberg itself reads its configuration once in a process."""
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
    """The error to raise when a catalog did not do what was asked."""
    where, said = f"The catalog {table.catalog!r} of table {table}", _said(table, error)
    if isinstance(error, UnauthorizedError | AuthorizationExpiredError | OAuthError):
        close_catalogs()  # a new token may be there by the next attempt
        return SinkUnavailableError(
            f"{where} does not accept the credentials of this process ({said}). {_SAFE} Set {_variable(table)}TOKEN "
            f"or {_variable(table)}CREDENTIAL anew, or the same in .pyiceberg.yaml; then repeat the step."
        )
    if isinstance(error, ForbiddenError):
        return RowsRefusedError(
            f"{where} does not allow that with the credentials of this process ({said}). {_SAFE} Have the right to "
            "read, make and change that table granted; then repeat the step."
        )
    if isinstance(error, CommitStateUnknownException):
        return SinkUnavailableError(
            f"{where} does not say whether it has carried out a commit ({said}). {_SAFE} Check that it runs, then "
            "repeat the step: it looks first, so nothing is committed twice."
        )
    return SinkUnavailableError(f"{where} cannot be used ({said}). {_SAFE} Check that it runs, then repeat the step.")


def _variable(table: TableName) -> str:
    return f"PYICEBERG_CATALOG__{str(table.catalog).upper()}__"


def _said(table: TableName, error: Exception) -> str:
    """The first line of a message."""
    line = (str(error).strip().splitlines() or ["no message"])[0].rstrip(".")
    for secret in sorted(_secrets(table), key=len, reverse=True):
        line = line.replace(secret, "***")
    shown = _SECRETS.sub("***", line)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"


def _secrets(table: TableName) -> set[str]:
    """A credential is the name and the secret of a client, with a colon between them."""
    properties: Any = Config().get_catalog_config(str(table.catalog)) or {}
    values = [str(value) for name, value in _flat(properties) if _SECRET.search(name)]
    return {part for value in values for part in (value, value.rpartition(":")[2]) if len(part) >= _SHORTEST}


def _flat(properties: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
