"""The database of a table is away for a while: each attempt says so at once, nothing is lost, and the next one after it
is back completes the checkpoint."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fatal_proxies import kill
from marts import Mart, Server
from public_directories import public_directory
from sizes import sizes

from tidegate import PostgresSink
from tidegate.cli.exit_codes import ExitCode, exit_code_of
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.errors import SinkUnavailableError, StoreUnavailableError, UnavailableError

#: By connection, what an attempt says meanwhile.
SAID: dict[str | None, tuple[type[UnavailableError], str]] = {
    None: (StoreUnavailableError, "The metadata database cannot be reached"),
    "marts": (SinkUnavailableError, "The database of table public.orders cannot be reached"),
}


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    with public_directory("tidegate-away-") as home:
        server = EmbeddedPostgres(home / "postgres", fsync=False)
        server.start()
        server.create_database("marts")
        upgrade(server.url("marts"))
        yield server


@sizes("seconds", 2, 60)
@pytest.mark.parametrize("connection", [None, "marts"])
def test_a_database_that_comes_back_is_all_that_a_step_needs(
    server: EmbeddedPostgres,
    running_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connection: str | None,
    seconds: int,
) -> None:
    store_url = running_url if connection else server.running_url("marts")
    marts = server.url("marts")
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", store_url)
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", marts)
    with closing(PostgresCheckpointStore(connect(store_url))) as store:
        shop = Mart(store, tmp_path, orders=PostgresSink("orders", connection=connection))
        shop.take()
        id_ = shop.finalize() if connection else shop.validated()
        step = shop.coordinator.notify if connection else shop.coordinator.finalize
        kill(server)
        kind, said = SAID[connection]
        until, attempts = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            began = time.monotonic()
            with pytest.raises(kind, match=said) as raised:
                step(id_)
            assert time.monotonic() - began < 30
            assert raised.value.retries is None  # Airflow's own number
            assert exit_code_of(raised.value) is ExitCode.UNAVAILABLE
            attempts += 1
            time.sleep(0.5)
        assert attempts > 1
        server.start()
        assert Server(marts).rows("SELECT v FROM orders") == [1]
        step(id_)
        assert Server(marts).rows("SELECT v FROM orders ORDER BY v") == [1, 2]
        assert shop.status(id_) == "COMPLETED"
