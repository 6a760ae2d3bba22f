"""Every test of this folder runs against both stores."""

from collections.abc import Iterator

import pytest
from memory_store import MemoryCheckpointStore

from tidegate.ports import CheckpointStore
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[CheckpointStore]:
    if request.param == "memory":
        yield MemoryCheckpointStore()
        return
    on_postgres = PostgresCheckpointStore(connect(request.getfixturevalue("postgres_url")))
    yield on_postgres
    on_postgres.close()
