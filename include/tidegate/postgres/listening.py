"""Waits for NOTIFY on a connection of its own, one per waiting thread. The waiter reads what has changed.

The connection stays open between two waits, so what is committed while the waiter reads is not missed. Before a
thread's first wait there is no connection. A waiter that must not miss anything reads again after its first wait,
whatever that returned.
"""

import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.postgres.outcomes import explain
from tidegate.protocol.errors import StoreUnavailableError


class ChangeListener:
    """Notifications about pipelines, as seen by the calling thread since its first wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = threading.local()

    def wait(self, pipeline_id: str, timeout: float) -> bool:
        """Whether the pipeline changed since the last wait, or within `timeout` seconds.

        Raises `StoreUnavailableError` when the connection cannot be opened or is lost.
        """
        changed = self._wait(timeout, lambda changed: pipeline_id in changed)
        found = pipeline_id in changed
        changed.discard(pipeline_id)
        return found

    def wait_for_any(self, timeout: float) -> frozenset[str]:
        """The pipelines that changed since the last wait, or within `timeout` seconds; none if nothing changed.

        Raises like `wait`.
        """
        changed = self._wait(timeout, bool)
        found = frozenset(changed)
        changed.clear()
        return found

    def open(self) -> None:
        """Listen from now on, not only from the first wait. Raises `StoreUnavailableError`."""
        self._listening()

    def _wait(self, timeout: float, enough: Callable[[set[str]], bool]) -> set[str]:
        """The pipelines that changed and were not taken yet, once there are `enough` or the time is over."""
        deadline = time.monotonic() + timeout
        connection, changed = self._listening()
        try:
            while True:
                connection.poll()
                changed.update(notice.payload for notice in connection.notifies)
                connection.notifies.clear()
                left = deadline - time.monotonic()
                if enough(changed) or left <= 0:
                    return changed
                select.select([connection], [], [], left)
        except self._engine.dialect.loaded_dbapi.Error as error:
            self.close()
            raise StoreUnavailableError(
                f"The connection that waits for changes was lost ({str(error).strip().splitlines()[0]}). Nothing was "
                "changed. Wait again: it reconnects."
            ) from error

    def close(self) -> None:
        """Close the calling thread's connection; others close when their threads end."""
        connection: Connection | None = getattr(self._thread, "connection", None)
        if connection is not None:
            with suppress(DBAPIError):  # it may be lost already
                connection.close()
        self._thread.connection = None

    def _listening(self) -> tuple[Any, set[str]]:
        """The driver's connection, and the pipelines that changed and were not waited for yet."""
        if getattr(self._thread, "connection", None) is None:
            try:
                connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
                connection.detach()  # out of the pool: it must not be lent to a transaction while it listens
                connection.execute(text("LISTEN tidegate"))
            except (DBAPIError, PoolTimeoutError) as error:
                raise explain(error, "waiting for changes") from error
            self._thread.connection = connection
            self._thread.changed = set()
        return self._thread.connection.connection.dbapi_connection, self._thread.changed
