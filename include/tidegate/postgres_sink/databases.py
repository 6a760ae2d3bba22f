"""Where the table of a sink is: the store's database, or one that a connection names. No URL is shown anywhere."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tidegate.embedded_postgres.locate import airflow_connection, connection_url, has_airflow, locate_database
from tidegate.postgres.engine import connect, database_url
from tidegate.postgres.outcomes import is_disconnect, sqlstate
from tidegate.protocol.facts.errors import CheckpointError, MissingConnectionError, SinkError

#: Of a connection `marts`, the variable `TIDEGATE_CONNECTION_MARTS`.
VARIABLE = "TIDEGATE_CONNECTION_"


def url_of(connection: str | None, environment: Mapping[str, str] | None = None) -> URL:
    """The database's URL. A connection is looked up in the environment, then in Airflow. Raises `ConfigurationError`;
    `MissingConnectionError` if nothing has that name."""
    if connection is None:
        return locate_database(environment=environment)
    env = os.environ if environment is None else environment
    variable = f"{VARIABLE}{connection.upper()}"
    if given := env.get(variable):
        return database_url(given)
    if has_airflow(env) and (found := airflow_connection(connection)) is not None:
        return connection_url(found)
    raise MissingConnectionError(
        f"There is no connection {connection!r} for a PostgresSink. Nothing was changed. Define it in Airflow (type "
        f"Postgres), or set {variable} to its URL, for every process that runs the pipeline."
    )


@lru_cache(maxsize=32)
def _engine(url: URL) -> Engine:
    return connect(url)


@contextmanager
def connected(connection: str | None, where: str) -> Iterator[Connection]:
    """A connection to the database, committed in the end. `where` is for errors: they say what became of the rows.
    Raises `SinkError` if the database is away or refuses something, which was not changed then."""
    try:
        with _engine(url_of(connection)).begin() as opened:
            yield opened
    except (DBAPIError, PoolTimeoutError) as error:
        raise explained(error, where) from error


def explained(error: DBAPIError | PoolTimeoutError, where: str) -> CheckpointError:
    """What an error outside of the checkpoint's transaction means."""
    said = _first_line(error)
    if isinstance(error, PoolTimeoutError) or is_disconnect(error):
        return SinkError(
            f"The database of {where} cannot be reached ({said}). The rows are staged and safe, and readers see what "
            "they saw before. Check that it runs, then repeat the step."
        )
    return SinkError(
        f"The database of {where} refused a statement ({sqlstate(error) or 'no code'}: {said}). The rows are staged "
        "and safe, and readers see what they saw before. Fix the cause, then repeat the step."
    )


def _first_line(error: DBAPIError | PoolTimeoutError) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines() or ["no message"]
    return lines[0].rstrip(".")
