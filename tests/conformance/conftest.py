"""Every test of this folder runs against both stores. Of the cases on Postgres, `make test` takes those that show every
shape of a transaction (`transaction_shapes`), and `make test-long` the others."""

from collections.abc import Callable, Iterator

import pytest
from committed_tables import Place, places
from desks import Desk
from live_pipelines import Live
from lost_databases import Lost
from memory_store import MemoryCheckpointStore
from transaction_shapes import is_on_postgres, repeats
from warm_stores import store_for

from tidegate.ports import CheckpointStore


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.pluginmanager.has_plugin("transaction_shapes"):
        return
    left = repeats()
    for item in items:
        if is_on_postgres(item) and item.name in left.get(item.path.name, ()):
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[CheckpointStore]:
    if request.param == "memory":
        yield MemoryCheckpointStore()
        return
    with store_for(request) as on_postgres:
        yield on_postgres


@pytest.fixture
def desk(store: CheckpointStore) -> Callable[..., Desk]:
    """`desk(min_pause="1 h")`: a coordinator with such a `CheckpointConfig`."""
    return lambda **config: Desk(store, **config)


@pytest.fixture
def live(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Live]:
    """`live(interval="10 s")`: continuous runs of a pipeline with such a `CheckpointConfig`."""
    return lambda **config: Live(store, monkeypatch, **config)


@pytest.fixture
def lost(store):
    """With checkpoints 1 to 4 behind it, whose database is lost when it is called."""
    world = Lost()
    for number in (1, 2, 3, 4):
        assert world.take(f"r{number}") == number

    def lose():
        world.lose(store)
        return world

    return world, lose


@pytest.fixture
def place(store: CheckpointStore, request: pytest.FixtureRequest) -> Iterator[Callable[[str], Place]]:
    """`place("out")`: a table in the store's database, for a sink in the commit."""
    owner = None
    if not isinstance(store, MemoryCheckpointStore):
        owner = request.getfixturevalue("postgres_server").url(store._engine.url.database)
    with places(store, owner) as place:
        yield place
