"""Stores that tests use one after the other on one database, whose connections stay open.

A new connection costs ten milliseconds of processor time to log in, and as much again until it knows the schema. The
statements of a new engine are compiled anew. That was two thirds of what a test of a transaction took.

A test that asks for the database's URL gets one of its own (`databases`): it may change more than rows.
"""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2
import pytest
from databases import Databases
from sqlalchemy.engine import make_url

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore

#: What makes a test need a database of its own.
URLS = frozenset({"postgres_url", "running_url"})

#: What makes every table empty and every sequence begin again. Other than TRUNCATE and RESTART it makes no new files.
_EMPTYING = """
    SELECT 'SET session_replication_role = replica' UNION ALL
    SELECT format('DELETE FROM %I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname = 'tidegate' AND tablename NOT IN ('schema_version', 'database_identity') UNION ALL
    SELECT format('SELECT setval(%L, %s, false)', format('%I.%I', schemaname, sequencename), start_value)
        FROM pg_sequences WHERE schemaname = 'tidegate'
"""

#: Whether the planner knows no more of the tables than of new ones, and reads no more to find them empty; and how many
#: are connected.
_IS_LIKE_NEW = """
    SELECT bool_and(relpages = 0 AND pg_relation_size(oid) < 500000),
           (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())
    FROM pg_class WHERE relnamespace = 'tidegate'::regnamespace AND relkind = 'r'
"""


class _Lent(PostgresCheckpointStore):
    def close(self) -> None:
        """The pool stays for the next test."""
        self._listener.close()


class WarmStores:
    """One at a time."""

    def __init__(self, server: EmbeddedPostgres, databases: Databases) -> None:
        self._server, self._databases = server, databases
        self._begin()

    @contextmanager
    def lend(self) -> Iterator[PostgresCheckpointStore]:
        threads = threading.active_count()
        store = _Lent(self._engine)
        yield store
        store.close()
        if threading.active_count() > threads or not self._is_as_before():
            self.close()
            self._begin()

    def close(self) -> None:
        """Whoever still uses a store does not find its database again."""
        self._engine.dispose()
        self._admin.close()
        self._databases.give_back(self._name)

    def _begin(self) -> None:
        self._name = self._databases.take()
        self._engine = connect(make_url(self._server.running_url(self._name)))
        self._admin = psycopg2.connect(self._server.url(self._name).replace("+psycopg2", ""))
        self._admin.autocommit = True
        with self._admin.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
            cursor.execute(_EMPTYING)
            self._emptying = "; ".join(statement for (statement,) in cursor.fetchall())

    def _is_as_before(self) -> bool:
        """Empty, and nobody else is connected."""
        try:
            with self._admin.cursor() as cursor:
                cursor.execute(f"{self._emptying}; {_IS_LIKE_NEW}")
                like_new, connected = cursor.fetchone()
        except psycopg2.OperationalError:  # somebody holds a row, or the server was stopped
            return False
        return bool(like_new) and connected <= self._engine.pool.checkedin() + 1  # type: ignore[attr-defined]


@contextmanager
def store_for(request: pytest.FixtureRequest) -> Iterator[PostgresCheckpointStore]:
    """On the database that the test knows, if it does; else a warm one."""
    if URLS.isdisjoint(request.fixturenames):
        with request.getfixturevalue("warm_stores").lend() as store:
            yield store
        return
    engine = connect(make_url(request.getfixturevalue("running_url")))
    with closing(PostgresCheckpointStore(engine)) as store:
        yield store
