"""Fixtures every test folder may use: a fresh, migrated database on a real Postgres, and the store on it.

The server is started by the first test that asks for it, once a session, with fsync off. Each test gets a database of
its own, a copy of a template that was migrated once. A process beside this one stops the server and removes its files
when the session ends, however it ends.
"""

import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy.engine import make_url

from tidegate.postgres.embedded import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.store import PostgresCheckpointStore

pytest_plugins = ["spark_sessions"]

TEMPLATE = "tidegate_template"

# Waits for the end of its input: this process closes it, or dies and so does.
UNDERTAKER = """
import shutil, sys
from pathlib import Path
from tidegate.postgres.embedded import EmbeddedPostgres
sys.stdin.read()
EmbeddedPostgres(Path(sys.argv[1]) / "postgres").stop()
shutil.rmtree(sys.argv[1])
"""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """A server of this session's own, with the template database."""
    # Not below pytest's temporary directory: that is private, and as root the server runs as another user.
    home = Path(tempfile.mkdtemp(prefix="tidegate-tests-"))
    home.chmod(0o755)
    server = EmbeddedPostgres(home / "postgres", fsync=False)
    undertaker = subprocess.Popen(
        [sys.executable, "-c", UNDERTAKER, str(home)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        server.start()
        server.create_database(TEMPLATE)
        upgrade(server.url(TEMPLATE))
        yield server
    finally:
        undertaker.communicate()


@pytest.fixture
def postgres_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh, migrated database."""
    name = f"test_{uuid.uuid4().hex}"
    _administer(postgres_server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    yield postgres_server.url(name)
    _administer(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresCheckpointStore]:
    """A store on a fresh database."""
    engine = connect(make_url(postgres_url))
    store = PostgresCheckpointStore(engine)
    yield store
    store.close()


def _administer(server: EmbeddedPostgres, statement: str) -> None:
    connection = psycopg2.connect(server.url("postgres").replace("+psycopg2", ""))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()
