"""Wait for NOTIFY on a separate connection for each waiting thread. The waiter reads the changes.

The connection stays open between two waits, so changes committed while the waiter reads are not missed. Before a
thread's first wait there is no connection. A waiter that must not miss anything reads again after its first wait,
whatever that returned.
"""

import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from select import select as readable
from typing import Any

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.postgres.outcomes import explain
from tidegate.protocol.facts.errors import ConfigurationError, StoreUnavailableError

#: The seconds within which a session receives the notification of another session's commit, and the channel for a test
#: of it.
HEARD_WITHIN = 2.0
_TRIAL = "tidegate_trial"
_LISTEN_TRIAL, _UNLISTEN_TRIAL = text("LISTEN tidegate_trial"), text("UNLISTEN tidegate_trial")


class ChangeListener:
    """Notifications about pipelines, received by the calling thread since its first wait."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._thread = threading.local()

    def wait(self, pipeline_ids: Collection[str], timeout: float) -> set[str]:
        """Return the given pipelines that changed since the last wait, or within `timeout` seconds.

        Raises `StoreUnavailableError` when the connection cannot be opened or is lost, `ConfigurationError` if a
        pooler prevents it from receiving notifications.
        """
        wanted = set(pipeline_ids)
        changed = self._wait(timeout, lambda changed: bool(changed & wanted))
        matching = changed & wanted
        changed -= matching
        return matching

    def wait_for_any(self, timeout: float) -> frozenset[str]:
        """Return the pipelines that changed since the last wait, or within `timeout` seconds; none if nothing changed.

        Raises like `wait`.
        """
        changed = self._wait(timeout, bool)
        taken = frozenset(changed)
        changed.clear()
        return taken

    def open(self) -> None:
        """Listen from now on, not only from the first wait. Raises like `wait`."""
        self._listening()

    def _wait(self, timeout: float, enough: Callable[[set[str]], bool]) -> set[str]:
        """Return the pipelines that changed and were not returned yet, once there are `enough` or the time is over."""
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
                readable([connection], [], [], left)
        except self._engine.dialect.loaded_dbapi.Error as error:
            self.close()
            raise StoreUnavailableError(
                f"The connection that waits for changes was lost ({str(error).strip().splitlines()[0]}). Nothing was "
                "changed. Wait again: it reconnects."
            ) from error

    def close(self) -> None:
        """Close the calling thread's connection. Those of other threads close when the threads end."""
        connection: Connection | None = getattr(self._thread, "connection", None)
        if connection is not None:
            with suppress(DBAPIError):  # it may be lost already
                connection.close()
        self._thread.connection = None

    def _listening(self) -> tuple[Any, set[str]]:
        """Return the driver's connection, and the pipelines that changed and were not returned yet."""
        if getattr(self._thread, "connection", None) is None:
            try:
                connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
                connection.detach()  # out of the pool: it must not be given to a transaction while it listens
                try:
                    self._require_notifications(connection)
                    connection.execute(text("LISTEN tidegate"))
                except BaseException:
                    connection.close()
                    raise
            except (DBAPIError, PoolTimeoutError) as error:
                raise explain(error, "waiting for changes") from error
            self._thread.connection = connection
            self._thread.changed = set()
        return self._thread.connection.connection.dbapi_connection, self._thread.changed

    def _require_notifications(self, connection: Connection) -> None:
        """Require that notifications arrive. Behind a pooler, whose session is not the server's, one is sent as a test.
        A pooler that assigns sessions for one transaction at a time accepts `LISTEN` but passes on no notification."""
        driver: Any = connection.connection.dbapi_connection
        if connection.execute(text("SELECT pg_backend_pid()")).scalar_one() == driver.info.backend_pid:
            return
        connection.execute(_LISTEN_TRIAL)
        with self._engine.connect() as another:
            another.execute(select(func.pg_notify(_TRIAL, "")))
            another.commit()
        readable([driver], [], [], HEARD_WITHIN)
        driver.poll()
        if not driver.notifies:
            raise ConfigurationError(
                "The metadata database is behind a pooler that gives each transaction another session, so this process "
                "would not be notified of commits of other processes. Nothing was changed. Set "
                "TIDEGATE_DATABASE_DIRECT_URL to a URL that leads to the server itself, or let the pooler keep "
                "sessions (pgbouncer: pool_mode = session)."
            )
        connection.execute(_UNLISTEN_TRIAL)
        driver.notifies.clear()
