"""Connect a process to the metadata database: the settings that each transaction sets, and the pool.

A transaction sets its own settings, whatever the defaults of the role, the database or the server are. A session has no
settings, temporary objects or prepared statements of Tidegate, so a pooler may give each transaction another
session. Only `listening` needs its own.
"""

from time import monotonic
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError

from tidegate.postgres.timeouts import name_timeouts
from tidegate.protocol.facts.errors import ConfigurationError

CONNECT_TIMEOUT = 10  # seconds
# A coordinator that is stopped (SIGSTOP, a lost host) inside a transaction holds its pipeline's lock. Its session is
# ended before the lock timeout of the waiting processes, so it delays its successor but never blocks it.
IDLE_IN_TRANSACTION_TIMEOUT = 30  # seconds
LOCK_TIMEOUT = 60  # seconds
#: A connection that was in use this recently is not tested again. Each test is a request, and a checkpoint takes seven
#: transactions in a row.
TRUSTED = 1.0  # seconds
_IDLE = 0  # libpq's PQTRANS_IDLE: no transaction has begun

#: A waiter for the pipeline's lock must see the commit of the previous holder.
ISOLATION = "READ COMMITTED"
#: The settings of each transaction, unless the URL's `options` have others.
_NEEDS = {
    "timezone": "'UTC'",
    "lock_timeout": str(LOCK_TIMEOUT * 1000),
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_TIMEOUT * 1000),
}


def database_url(url: str | URL) -> URL:
    """Return the URL for SQLAlchemy with psycopg2. `postgres://` and `postgresql://` are both accepted.

    Raises `ConfigurationError` for anything that is not a Postgres URL. The message never contains the password.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigurationError(
            "The database URL cannot be parsed (it is not shown here: it may hold a password). "
            "Write it as postgresql://user:password@host:5432/database, with special characters percent-encoded."
        ) from None
    if parsed.get_backend_name() not in {"postgresql", "postgres"}:
        raise ConfigurationError(
            f"The database URL names {parsed.get_backend_name()!r}; Tidegate's store needs PostgreSQL. "
            "Write it as postgresql://user:password@host:5432/database."
        )
    return parsed.set(drivername="postgresql+psycopg2")


def connect(url: str | URL) -> Engine:
    """Return an engine with a small pool. Connections are opened when first used, and tested before they are reused
    after a while."""
    parsed = database_url(url)
    engine = create_engine(
        parsed,
        pool_size=4,
        max_overflow=8,
        pool_timeout=CONNECT_TIMEOUT,
        pool_recycle=1800,
        isolation_level=ISOLATION,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT,
            "application_name": "tidegate",
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
        },
    )
    _test_after_a_while(engine)
    _state_needs(engine, str(parsed.query.get("options", "")))
    name_timeouts(engine)
    return engine


def _state_needs(engine: Engine, options: str) -> None:
    """Send the settings of each transaction together with its first statement, in one request. A single statement
    (AUTOCOMMIT) also sets its isolation level. For the others, psycopg2 sets it when it begins them."""
    needs = "".join(f"SET LOCAL {name} = {value}; " for name, value in _NEEDS.items() if name not in options.lower())
    alone = f"SET TRANSACTION ISOLATION LEVEL {ISOLATION}; {needs}"

    @event.listens_for(engine, "do_execute")
    def execute(cursor: Any, statement: str, parameters: Any, _context: Any) -> bool:
        connection = cursor.connection
        if connection.info.transaction_status != _IDLE or statement.startswith(("LISTEN", "UNLISTEN")):
            return False
        cursor.execute((alone if connection.autocommit else needs) + statement, parameters)
        return True


def _test_after_a_while(engine: Engine) -> None:
    """Test connections like `pool_pre_ping`, but not before every use. A connection that is gone is replaced."""
    dialect = engine.dialect

    @event.listens_for(engine, "checkin")
    def note(_connection: Any, entry: Any) -> None:
        entry.info["back"] = monotonic()

    @event.listens_for(engine, "checkout")
    def test(connection: Any, entry: Any, _proxy: Any) -> None:
        if monotonic() - entry.info.get("back", monotonic()) < TRUSTED:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            if not dialect.is_disconnect(error, connection, None):
                raise
            raise DisconnectionError from error
