"""What tests of tables in Postgres share: a project, its database, and another database."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from databases import Databases
from marts import Mart, Server

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def here(postgres_url: str, running_url: str, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The store's database, in which the running role may make tables."""
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    return Server(postgres_url)


@pytest.fixture
def there(postgres_server: EmbeddedPostgres, databases: Databases, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Another database, of a connection `marts`; its role is its owner."""
    name = databases.take()
    server = Server(postgres_server.url(name))
    server.do("DROP SCHEMA tidegate CASCADE", "DROP SCHEMA tidegate_sinks CASCADE")
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", server.url)
    yield server
    databases.give_back(name)


@pytest.fixture
def mart(here: Server, store: PostgresCheckpointStore, home: Path) -> Callable[..., Mart]:
    """Makes pipelines on the store's database."""
    return lambda **given: Mart(store, home, **given)


@pytest.fixture
def impatient(
    here: Server, running_url: str, monkeypatch: pytest.MonkeyPatch, home: Path
) -> Iterator[Callable[..., Mart]]:
    """Makes pipelines that wait 400 ms for a lock, instead of a minute."""
    url = f"{running_url}?options=-c%20lock_timeout%3D400"
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", url)
    with closing(PostgresCheckpointStore(connect(url))) as store:
        yield lambda **given: Mart(store, home, **given)


@pytest.fixture
def other_database(postgres_server: EmbeddedPostgres, databases: Databases) -> Iterator[Server]:
    """One more, which no connection leads to."""
    name = databases.take()
    server = Server(postgres_server.url(name))
    server.do("DROP SCHEMA tidegate CASCADE", "DROP SCHEMA tidegate_sinks CASCADE")
    yield server
    databases.give_back(name)
