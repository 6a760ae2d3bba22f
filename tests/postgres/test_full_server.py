"""A server that lets nobody in: the error says so, and whoever meets it may simply try again."""

import os
import subprocess
import sys
from contextlib import ExitStack, closing

import psycopg2
import pytest
from public_directories import public_directory

from tidegate.cli.exit_codes import ExitCode
from tidegate.embedded_postgres import server as embedded
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.outcomes import unreachable
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.errors import StoreUnavailableError

CONNECTIONS = 5


@pytest.fixture
def home():
    with public_directory("tidegate-full-") as made:
        yield made


@pytest.fixture
def server(home, monkeypatch):
    """A real one with few connections, in the place where `tidegate` looks for it."""
    monkeypatch.setattr(embedded, "_CONNECTIONS", CONNECTIONS)
    server = EmbeddedPostgres(home / ".tidegate" / "postgres", fsync=False)
    server.start()
    server.create_database()
    upgrade(server.url())
    yield server
    server.remove()


def test_out_of_connections_is_said_and_passes(server, home):
    store = PostgresCheckpointStore(connect(server.url()))
    command = [sys.executable, "-m", "tidegate.cli.main", "stats", "p"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEGATE_", "AIRFLOW"))}
    environment["TIDEGATE_HOME"] = str(home)
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(closing(psycopg2.connect(server.url().replace("+psycopg2", ""))))
        for use in (lambda: store.pipelines(), lambda: store.wait_for_change("p", 0), lambda: upgrade(server.url())):
            with pytest.raises(StoreUnavailableError, match=r"accepts no more connections.*Nothing was changed"):
                use()
        with pytest.raises(StoreUnavailableError, match="accepts no more connections"), store.transaction("p"):
            pass
        refused = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home, timeout=120)
    assert refused.returncode == ExitCode.UNAVAILABLE, refused.stderr
    assert "accepts no more connections" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    assert store.pipelines() == []
    store.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "no more connections",
        ),
        ('FATAL:  too many connections for role "runner"', "no more connections"),
        ("FATAL:  the database system is starting up", "starting, stopping or recovering"),
        ("FATAL:  the database system is shutting down", "starting, stopping or recovering"),
        ("FATAL:  the database system is in recovery mode", "starting, stopping or recovering"),
        ("could not connect to server: Connection refused", "Check that PostgreSQL runs"),
        ("", "no message"),
    ],
)
def test_each_answer_has_its_advice(answer, words):
    assert words in str(unreachable(answer, "a look"))
