"""What tests of Iceberg tables share: a project and its database, and readers of the tables."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from iceberg_tables import Lake
from marts import Mart, Server
from rest_catalogs import RestCatalogServer, rest_catalog

from tidegate.iceberg.catalogs import close_catalogs
from tidegate.postgres.store import PostgresCheckpointStore


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def lake(postgres_url: str, running_url: str, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """The catalog, as readers open it."""
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    return Lake(postgres_url)


@pytest.fixture
def mart(lake: Lake, store: PostgresCheckpointStore, home: Path) -> Callable[..., Mart]:
    """Makes pipelines on the store's database."""
    return lambda **given: Mart(store, home, **given)


@pytest.fixture
def here_and_lake(lake: Lake, postgres_url: str) -> Server:
    """The database with the catalog and the tables in Postgres, as its owner sees it."""
    return Server(postgres_url)


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    with rest_catalog(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture
def rest(
    lake: Lake, rest_server: RestCatalogServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RestCatalogServer]:
    """A REST catalog that pyiceberg's configuration calls `lake`."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", rest_server.url)
    rest_server.say(token=None, together=True, faults=[])
    close_catalogs()
    yield rest_server
    close_catalogs()


@pytest.fixture
def space(home: Path) -> str:
    """A namespace that no other test has in the server's catalog."""
    return home.name.replace("-", "_").replace("[", "_").rstrip("]")


@pytest.fixture
def other_catalog(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A catalog in a file of SQLite, as pyiceberg's configuration names it."""
    monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__URI", f"sqlite:///{home}/catalog.db")
    yield
    close_catalogs()
