"""Fixtures every test folder may use: a fresh, migrated database on a real Postgres, and the store on it.

The server is started by the first test that asks for it, once a session, with fsync off. A test that asks for a URL
gets a database that no other one has had. Tests that ask for a store alone use one database, one after the other.
"""

from collections.abc import Iterator
from contextlib import closing

import hypothesis
import pytest
from databases import Databases
from public_directories import public_directory
from sqlalchemy.engine import make_url
from warm_stores import WarmStores, store_for

from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.postgres.store import PostgresCheckpointStore

# Tests that are marked `sampled` take these. `make test` tries a few examples of each, `make test-long` many.
hypothesis.settings.register_profile("sample", max_examples=10, deadline=None)
hypothesis.settings.register_profile("long", max_examples=100, deadline=None)
hypothesis.settings.load_profile("sample")

pytest_plugins = [
    "lanes",
    "undertaker",
    "quick_java",
    "quick_python",
    "spark_sessions",
    "object_stores",
    "spark_clusters",
    "kafka_brokers",
]


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


@pytest.fixture(scope="session")
def warm_stores(postgres_server: EmbeddedPostgres, databases: Databases) -> Iterator[WarmStores]:
    with closing(WarmStores(postgres_server, databases)) as stores:
        yield stores


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[PostgresCheckpointStore]:
    """A store on an empty database."""
    with store_for(request) as store:
        yield store
