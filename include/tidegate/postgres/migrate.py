"""Upgrade a database's schema to the version that this library needs, and check its version.

The migrations are in `migrations/`, inside the package. Their version table is in the schema `tidegate`. This file
decides when they run and how concurrent upgrades wait for each other. It does not define their contents.
"""

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from tidegate.postgres import audit
from tidegate.postgres.engine import CONNECT_TIMEOUT, ISOLATION, database_url
from tidegate.postgres.grants import grant_rights
from tidegate.postgres.outcomes import explain
from tidegate.postgres.tables import SCHEMA
from tidegate.postgres.timeouts import name_timeouts
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.observing.actions import ActionAnswer, AnswerStatus, UserAction

if TYPE_CHECKING:
    from alembic.config import Config

VERSION_TABLE = "schema_version"
_UPGRADE_LOCK = 0x7469646567617465  # "tidegate" in ASCII: every process that upgrades takes this advisory lock
MIGRATIONS = Path(__file__).parent / "migrations"


def config(connection: Connection | None = None) -> "Config":
    """Return Alembic's configuration. Migrations run on the given connection, in its open transaction."""
    from alembic.config import Config

    settings = Config()
    # Alembic's configuration interpolates `%`, which a path may contain.
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("path_separator", "newline")
    settings.attributes["connection"] = connection
    return settings


@cache
def versions() -> tuple[str, ...]:
    """Return the schema versions that this library has, oldest first, by the names of the migrations. Alembic is not
    imported for it, which takes a tenth of a second of processor time and 12 MB, and only an upgrade needs it."""
    files = (MIGRATIONS / "versions").glob("[0-9]*.py")
    return tuple(sorted(file.name.partition("_")[0] for file in files))


def needed_version() -> str:
    """Return the schema version that this library works with."""
    return versions()[-1]


def upgrade(url: str | URL, action: UserAction | None = None) -> None:
    """Create or upgrade the schema, all of it or nothing. Several processes at once are safe: the later ones wait. The
    URL is that of the schema's owner. The running role, if there is one, gets its rights. A user action is recorded
    if the version changes.

    Raises `StoreUnavailableError` if the database cannot be reached.
    """
    engine = _engine(url)
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
            if _exists(connection, f"{SCHEMA}.{VERSION_TABLE}"):
                _refuse_newer(connection)
            else:
                connection.execute(text("CREATE SCHEMA IF NOT EXISTS tidegate"))
            before = _version(connection)
            from alembic import command

            command.upgrade(config(connection), "head")
            grant_rights(connection)
            if action is not None and (after := _version(connection)) != before:
                sentence = f"The schema is at version {after}; it was at {before or 'none'}."
                now: datetime = connection.execute(text("SELECT now()")).scalar_one()
                audit.record(connection, None, action, ActionAnswer(AnswerStatus.DONE, sentence), now)
    except DBAPIError as error:
        raise explain(error, "the upgrade of the schema") from error
    finally:
        engine.dispose()


def is_behind(url: str | URL) -> bool:
    """Whether the database has no schema yet, or an older one. False for one that a newer library has upgraded."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            version = _version(connection)
    except DBAPIError as error:
        raise explain(error, "reading the schema's version") from error
    finally:
        engine.dispose()
    return version is None or (version in versions() and version != needed_version())


def _engine(url: str | URL) -> Engine:
    """Return an engine for upgrades. An upgrade that has waited for another one must see its result. It may take long
    and takes no pipeline's lock, so Tidegate's timeouts do not apply."""
    timeout = {"connect_timeout": CONNECT_TIMEOUT}
    engine = create_engine(database_url(url), poolclass=NullPool, isolation_level=ISOLATION, connect_args=timeout)
    name_timeouts(engine)
    return engine


def answers(engine: Engine) -> None:
    """Raise `StoreUnavailableError` unless the database accepts a connection."""
    try:
        with engine.connect():
            pass
    except DBAPIError as error:
        raise explain(error, "connecting to the database") from error


def check(engine: Engine) -> None:
    """Raise `ConfigurationError` unless the database's schema is the one that this library works with."""
    try:
        with engine.connect() as connection:
            version = _version(connection)
            if version is None:
                raise ConfigurationError(
                    f"The database {_name(engine)} has no Tidegate schema. Run `tidegate db upgrade` first."
                )
            if version != needed_version():
                _refuse_newer(connection)
                raise ConfigurationError(
                    f"The schema in the database {_name(engine)} is at version {version}, but this library needs "
                    f"{needed_version()}. Run `tidegate db upgrade`."
                )
    except DBAPIError as error:
        raise explain(error, "the check of the schema's version") from error


def _refuse_newer(connection: Connection) -> None:
    version = _version(connection)
    if version is not None and version not in versions():
        raise ConfigurationError(
            f"The schema in the database {_name(connection.engine)} is at version {version}, but the newest "
            f"version in this library is {needed_version()}. A newer Tidegate upgraded it: install that version here."
        )


def _version(connection: Connection) -> str | None:
    if not _exists(connection, f"{SCHEMA}.{VERSION_TABLE}"):
        return None
    version: str | None = connection.execute(text("SELECT version_num FROM tidegate.schema_version")).scalar()
    return version


def _exists(connection: Connection, table: str) -> bool:
    return connection.execute(text("SELECT to_regclass(:table)"), {"table": table}).scalar() is not None


def _name(engine: Engine) -> str:
    return f"{engine.url.database!r} on {engine.url.host}:{engine.url.port or 5432}"
