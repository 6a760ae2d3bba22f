"""Databases for tests: migrated, empty, and each of a name that nobody has had before.

To make one costs the kernel a tenth of a second and more, for hundreds of files. So one that a test has had is emptied
and serves again, unless its schema is not what it was.
"""

import uuid
from contextlib import closing
from typing import Any

import psycopg2

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.migrate import upgrade

TEMPLATE = "tidegate_template"

#: All that a test could change for the next one: columns, rights, constraints, functions, triggers, the version, and
#: that the planner was told how large a table is: emptied, it would still count as empty when ten thousand rows are in
#: it, and each be looked for among all. Rows are no part of it.
_SHAPE = """
    WITH space AS (SELECT oid, nspname, nspacl FROM pg_namespace
        WHERE nspname IN ('tidegate', 'tidegate_sinks', 'tidegate_iceberg', 'public')),
    relation AS (SELECT c.* FROM pg_class c JOIN space ON space.oid = c.relnamespace)
    SELECT md5(string_agg(part, ';' ORDER BY part)) FROM (
        SELECT concat(relname, relkind, relacl, relkind = 'r' AND reltuples >= 0) FROM relation
        UNION ALL SELECT concat(relname, attname, atttypid, attnotnull, attacl) FROM pg_attribute a
            JOIN relation ON relation.oid = a.attrelid
        UNION ALL SELECT concat(relname, conname, convalidated, consrc) FROM relation JOIN LATERAL
            (SELECT conname, convalidated, pg_get_constraintdef(c.oid) consrc FROM pg_constraint c
             WHERE conrelid = relation.oid) ON true
        UNION ALL SELECT concat(relname, tgname, tgenabled) FROM pg_trigger t
            JOIN relation ON relation.oid = t.tgrelid WHERE NOT tgisinternal
        UNION ALL SELECT concat(proname, prosrc, proacl) FROM pg_proc p JOIN space ON space.oid = p.pronamespace
        UNION ALL SELECT concat(nspname, nspacl) FROM space
        UNION ALL SELECT to_jsonb(v)::text FROM tidegate.schema_version v
    ) AS parts (part)
"""
_EMPTY = """
    SET session_replication_role = replica;
    DO $$
    DECLARE name text;
    BEGIN
        FOR name IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
            WHERE schemaname = 'tidegate' AND tablename NOT IN ('schema_version', 'database_identity')
        LOOP
            EXECUTE 'DELETE FROM ' || name;
        END LOOP;
        FOR name IN SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences LOOP
            EXECUTE 'ALTER SEQUENCE ' || name || ' RESTART';
        END LOOP;
    END $$;
"""


class Databases:
    """Those of one server."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        self._free: list[str] = []
        self._admin = self._connect("postgres")  # for all of them: a connection costs as much as what is done on it
        with self._admin.cursor() as cursor:
            # A vacuum that comes by itself tells the planner that a table is empty which the next test will fill.
            cursor.execute("ALTER SYSTEM SET autovacuum = off")
            cursor.execute("SELECT pg_reload_conf()")
        server.create_database(TEMPLATE)
        upgrade(server.url(TEMPLATE))
        self._shape = self._emptied(TEMPLATE)

    def take(self) -> str:
        """The name of an empty one. Not that which was emptied last: whoever did may still be on the way out, and to
        give it another name would wait for that."""
        name = f"test_{uuid.uuid4().hex}"
        with self._alive().cursor() as cursor:
            if len(self._free) > 1:
                cursor.execute(f"ALTER DATABASE {self._free.pop(0)} RENAME TO {name}")
            else:
                cursor.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")
        return name

    def give_back(self, name: str) -> None:
        """Whoever is still connected is cut off, and does not find it again: its next name is another one."""
        free = f"free_{uuid.uuid4().hex}"
        with self._alive().cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s", [name])
            cursor.execute(f"ALTER DATABASE {name} RENAME TO {free}")
            if self._emptied(free) == self._shape:
                self._free.append(free)
            else:
                cursor.execute(f"DROP DATABASE {free} WITH (FORCE)")

    def _emptied(self, name: str) -> Any:
        """Its shape, None if it has no schema any more."""
        with closing(self._connect(name)) as connection, connection.cursor() as cursor:
            try:
                cursor.execute(_SHAPE)
            except psycopg2.errors.UndefinedTable:
                return None
            shape = cursor.fetchone()
            cursor.execute(_EMPTY)
            return shape

    def _alive(self) -> Any:
        """The connection beside all of them, made anew if a test has restarted the server."""
        try:
            with self._admin.cursor() as cursor:
                cursor.execute("SELECT 1")
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            self._admin = self._connect("postgres")
        return self._admin

    def _connect(self, name: str) -> Any:
        connection = psycopg2.connect(self._server.url(name).replace("+psycopg2", ""))
        connection.autocommit = True
        return connection
