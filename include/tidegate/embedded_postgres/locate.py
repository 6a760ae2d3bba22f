"""Find the metadata database. In this order: the argument, `TIDEGATE_DATABASE_URL`, Airflow's connection
`tidegate_default`, the embedded server below the project's home.

Airflow's connection is read only if there is an Airflow: its home or the connection is in the environment, or it is
already imported. No URL is ever logged or shown, because it holds a password.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import database_url
from tidegate.postgres.migrate import is_behind, upgrade
from tidegate.protocol.facts.errors import ConfigurationError, MissingConnectionError
from tidegate.settings import Settings, is_project

if TYPE_CHECKING:
    from airflow.sdk import Connection

CONNECTION_ID = "tidegate_default"
VARIABLE = "TIDEGATE_DATABASE_URL"
#: The URL of the same database without a pooler, for connections that receive notifications.
DIRECT_VARIABLE = "TIDEGATE_DATABASE_DIRECT_URL"

# The entries of `extra` in Airflow's Postgres connection form that libpq understands.
_LIBPQ_EXTRAS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "options", "target_session_attrs")


def locate_database(
    url: str | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    owner: bool = False,
    writes: bool = False,
) -> URL:
    """Return the database's URL; with `owner`, that of the role that may also upgrade the schema.

    If nothing else is configured, it is the embedded server's URL. A running server is used. With `writes`, in a
    project, one is made, started and upgraded: it belongs to that project alone.

    Raises `ConfigurationError` if a URL or the connection is not valid, or if nothing is found;
    `MissingConnectionError` if an Airflow task would have to make a database; `StoreUnavailableError` if the
    embedded server is stopped.
    """
    env = os.environ if environment is None else environment
    given = url or env.get(VARIABLE)
    if given:
        return database_url(given)
    if has_airflow(env):
        connection = airflow_connection()
        if connection is not None:
            return connection_url(connection)
    data_dir = embedded_directory(Settings.from_environment(env))
    if data_dir.exists():
        server = EmbeddedPostgres(data_dir)
        if writes and is_project(env):
            return database_url(start_embedded(data_dir, owner))
        return database_url(server.url() if owner else server.running_url())
    if _in_airflow_task():
        # Airflow reports an unreachable secrets backend as a missing connection. An empty database made on the spot
        # would begin at checkpoint 1 and deliver everything again.
        raise MissingConnectionError(
            f"This Airflow task finds no connection {CONNECTION_ID!r}, no {VARIABLE}, and no embedded database in "
            f"{data_dir}. Nothing was changed. Define the connection (type Tidegate or Postgres) or set {VARIABLE} for "
            "the workers. Then clear the failed task."
        )
    if writes and is_project(env):
        return database_url(start_embedded(data_dir, owner))
    raise _nothing_found(env, data_dir)


def direct_database(environment: Mapping[str, str] | None = None) -> URL | None:
    """Return the URL that leads to the database directly, if `locate_database` leads to a pooler; None if it is not
    set. Raises `ConfigurationError` if it is not valid."""
    given = (os.environ if environment is None else environment).get(DIRECT_VARIABLE)
    return database_url(given) if given else None


def has_airflow(environment: Mapping[str, str]) -> bool:
    """Whether there is a sign of an Airflow. Importing it takes seconds."""
    return "AIRFLOW_HOME" in environment or "AIRFLOW_CONN_TIDEGATE_DEFAULT" in environment or "airflow" in sys.modules


def embedded_directory(settings: Settings) -> Path:
    return settings.home / ".tidegate" / "postgres"


def start_embedded(data_dir: Path, owner: bool = False) -> str:
    """Start the embedded server of a directory, with its database created and its schema upgraded. Return its URL."""
    server = EmbeddedPostgres(data_dir)
    server.start()
    server.create_database()
    if is_behind(server.url()):
        upgrade(server.url())
    return server.url() if owner else server.running_url()


def _nothing_found(environment: Mapping[str, str], data_dir: Path) -> ConfigurationError:
    airflow = f"no connection {CONNECTION_ID!r} in Airflow" if has_airflow(environment) else "no AIRFLOW_HOME"
    project = (
        "The first `tidegate run` makes one."
        if is_project(environment)
        else f"{data_dir.parents[1]} is no project either: it has no pyproject.toml with [tool.tidegate], and "
        "TIDEGATE_HOME is not set. Go to your project, begin one with `tidegate init`, or set the URL."
    )
    return ConfigurationError(
        f"No database was found, and none was started. Searched: {VARIABLE}, which is not set; {airflow}; an "
        f"embedded database in {data_dir}. {project}"
    )


def airflow_connection(name: str = CONNECTION_ID) -> "Connection | None":
    """Return Airflow's connection, None if there is none. Works in task processes and outside, through the task SDK."""
    try:
        # Imported only where there is a sign of Airflow: it takes seconds.
        from airflow.sdk import Connection
        from airflow.sdk.exceptions import AirflowNotFoundException
    except ImportError:
        return None
    try:
        found: Connection = Connection.get(name)
        return found
    except AirflowNotFoundException:
        return None


def connection_url(connection: "Connection", name: str = CONNECTION_ID) -> URL:
    """Return the database of an Airflow connection. Raise `ConfigurationError` if the connection is of another type."""
    if connection.conn_type not in {"tidegate", "postgres", "postgresql"}:
        raise ConfigurationError(
            f"The Airflow connection {name!r} is of type {connection.conn_type!r}, but must lead to a "
            "PostgreSQL database. Change its type to Tidegate or Postgres."
        )
    extra = connection.extra_dejson
    return URL.create(
        "postgresql+psycopg2",
        username=connection.login,
        password=connection.password,
        host=connection.host,
        port=connection.port,
        database=connection.schema or None,
        query={name: str(extra[name]) for name in _LIBPQ_EXTRAS if name in extra},
    )


def _in_airflow_task() -> bool:
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return getattr(runner, "SUPERVISOR_COMMS", None) is not None
