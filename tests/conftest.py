"""Fixtures every test folder may use: a fresh, migrated database on a real Postgres, and the store on it.

The server is started by the first test that asks for it, once a session, with fsync off. Each test gets a database
that is empty and has no other user.
"""

from collections.abc import Iterator

import pytest
from databases import Databases
from public_directories import public_directory
from sqlalchemy.engine import make_url
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore

pytest_plugins = ["undertaker", "quick_java", "quick_python", "spark_sessions", "object_stores", "spark_clusters"]

#: Folders whose tests share a server that takes a minute to start: one lane takes all of them.
TOGETHER = ("tests/scheduler/",)


class Lanes(LoadScopeScheduling):
    """Tests that run beside each other share nothing: a file stays together, and so does a folder of `TOGETHER`."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest work begins first, so that no lane waits for another in the end."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    """Airflow, Spark, long computations, then the rest."""
    if item.nodeid.startswith(TOGETHER):
        return 0
    if item.get_closest_marker("spark") is not None:
        return 1
    return 2 if item.nodeid.startswith("tests/simulation/") else 3


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    return Lanes(config, log)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """A server of this session's own."""
    with public_directory("tidegate-tests-") as home:
        server = EmbeddedPostgres(home / "postgres", fsync=False)
        server.start()
        yield server


@pytest.fixture(scope="session")
def databases(postgres_server: EmbeddedPostgres) -> Databases:
    return Databases(postgres_server)


@pytest.fixture
def postgres_url(postgres_server: EmbeddedPostgres, databases: Databases) -> Iterator[str]:
    """The SQLAlchemy URL of an empty, migrated database, for its owner: a test may do what a coordinator may not."""
    name = databases.take()
    yield postgres_server.url(name)
    databases.give_back(name)


@pytest.fixture
def running_url(postgres_server: EmbeddedPostgres, postgres_url: str) -> str:
    """The same database, for the role that runs pipelines."""
    return postgres_server.running_url(make_url(postgres_url).database or "")


@pytest.fixture
def store(running_url: str) -> Iterator[PostgresCheckpointStore]:
    """A store on a fresh database."""
    engine = connect(make_url(running_url))
    store = PostgresCheckpointStore(engine)
    yield store
    store.close()
