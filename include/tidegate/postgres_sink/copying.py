"""The connection for copying rows, kept for later commits. Opening it takes nearly half of a small commit, because it
reads all types of the database."""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TYPE_CHECKING

from sqlalchemy import URL

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

_kept: dict[tuple[int, str], "Connection"] = {}
_lock = Lock()


@contextmanager
def copying(url: URL) -> Iterator["Connection"]:
    """Take the connection for exclusive use. After an error it is not kept. Raise ADBC's errors."""
    from adbc_driver_postgresql import dbapi

    # After a fork the connection belongs to the parent.
    key = os.getpid(), libpq(url)
    with _lock:
        connection = _kept.pop(key, None)
    if connection is not None and not _answers(connection):
        _close(connection)
        connection = None
    if connection is None:
        connection = dbapi.connect(key[1])
    try:
        yield connection
    except BaseException:
        _close(connection)
        raise
    with _lock:
        other = _kept.setdefault(key, connection)
    if other is not connection:
        _close(connection)


def libpq(url: URL) -> str:
    """Return the URL for libpq, which does not read a plus sign as a space."""
    url = url.set(drivername="postgresql").update_query_dict({"application_name": "tidegate"})
    place, _, query = url.render_as_string(hide_password=False).partition("?")
    return f"{place}?{query.replace('+', '%20')}"


def _answers(connection: "Connection") -> bool:
    from adbc_driver_manager import Error

    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()
        connection.rollback()
    except Error:
        return False
    return True


def _close(connection: "Connection") -> None:
    from adbc_driver_manager import Error

    with suppress(Error):
        connection.close()


@atexit.register
def _close_all() -> None:
    for (process, _), connection in _kept.items():
        if process == os.getpid():
            _close(connection)
    _kept.clear()
