"""What tests of a table in Postgres that is read share: another database, of a connection `shop`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Databases
from marts import Server
from outbox_lives import INDEX, TABLE

from tidegate.embedded_postgres.server import EmbeddedPostgres


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def shop(postgres_server: EmbeddedPostgres, databases: Databases, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    name = databases.take()
    server = Server(postgres_server.url(name))
    monkeypatch.setenv("TIDEGATE_CONNECTION_SHOP", server.url)
    yield server
    databases.give_back(name)


@pytest.fixture
def outbox(shop: Server) -> Server:
    shop.do(TABLE, INDEX)
    return shop
