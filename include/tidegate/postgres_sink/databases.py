"""The database of a sink's or source's table: the metadata database, or that of a named connection. Its URL is never
shown."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.embedded_postgres.locate import airflow_connection, connection_url, has_airflow, locate_database
from tidegate.ports import CommitAttempt, Participant
from tidegate.postgres.engine import connect, database_url
from tidegate.postgres.outcomes import is_disconnect, is_repeatable
from tidegate.postgres.participants import CHECK_NOW, statement_error
from tidegate.postgres_sink.names import Target
from tidegate.postgres_sink.positions import OwnStatements, lock
from tidegate.postgres_sink.refusals import Occasion, away, outside, refused
from tidegate.protocol.facts.errors import MissingConnectionError, SinkError

#: Prefix of variables: `TIDEGATE_CONNECTION_MARTS` for a connection `marts`.
VARIABLE = "TIDEGATE_CONNECTION_"


def url_of(connection: str | None, environment: Mapping[str, str] | None = None) -> URL:
    """Return the database's URL. A connection is looked up in the environment, then in Airflow. Raise
    `ConfigurationError`, and `MissingConnectionError` if there is no connection of that name."""
    if connection is None:
        return locate_database(environment=environment)
    env = os.environ if environment is None else environment
    variable = f"{VARIABLE}{connection.upper()}"
    if given := env.get(variable):
        return database_url(given)
    if has_airflow(env) and (found := airflow_connection(connection)) is not None:
        return connection_url(found, connection)
    raise MissingConnectionError(
        f"There is no connection {connection!r} to a database. Nothing was changed. Define it in Airflow (type "
        f"Postgres), or set {variable} to its URL, for every process that runs the pipeline."
    )


def engine_of(url: URL) -> Engine:
    """Return this process's engine for a database."""
    return _engine_of(os.getpid(), url)


@lru_cache(maxsize=32)
def _engine_of(process: int, url: URL) -> Engine:
    """Create an engine. It is cached by process: after a fork, open connections belong to the parent."""
    return connect(url)


@contextmanager
def connected(connection: str | None, target: Target, occasion: Occasion | None = None) -> Iterator[Connection]:
    """Open a connection to the database of a table, and commit at the end. Raise `SinkError` if the database is
    unreachable or refuses a statement; then nothing is changed. `occasion` is the use for a table's rows, if any."""
    try:
        with engine_of(url_of(connection)).begin() as opened:
            try:
                yield opened
            except DBAPIError as error:
                raise _explained(error, opened, target, occasion or outside(target)) from error
    except (DBAPIError, PoolTimeoutError) as error:
        raise away(target, first_line(error)) from error


def _explained(error: DBAPIError, opened: Connection, target: Target, occasion: Occasion) -> SinkError:
    if is_disconnect(error):
        return away(target, first_line(error))
    return refused(statement_error(error, opened), target, occasion)


def carry_out(connection: str | None, participant: Participant, target: Target, attempt: CommitAttempt) -> None:
    """Run a participant in a transaction of its own, once more if another transaction came first or the connection was
    lost: a participant does nothing twice. Raise its errors, and `SupersededAttemptError`."""
    for again in (True, False):
        try:
            with engine_of(url_of(connection)).begin() as opened:
                lock(OwnStatements(opened), target, attempt.number)
                attempt.confirm()  # other writers of the table now wait, and an earlier restore has ended the attempt
                _run(opened, participant, again)
            return
        except (DBAPIError, PoolTimeoutError) as error:
            if not (again and isinstance(error, DBAPIError) and is_repeatable(error)):
                raise away(target, first_line(error)) from error


def _run(opened: Connection, participant: Participant, again: bool) -> None:
    """Run a participant. Deferred constraints are checked here, where an error can still be attributed to the table."""
    try:
        participant.run(OwnStatements(opened))
        opened.execute(CHECK_NOW)
    except DBAPIError as error:
        if is_disconnect(error) or (again and is_repeatable(error)):
            raise
        raise participant.explain(statement_error(error, opened)) from error


def first_line(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or ["no message"]
    return lines[0].rstrip(".")
