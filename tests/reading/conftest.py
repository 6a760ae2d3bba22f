"""A pipeline on a real database, walked through its checkpoints, and what can be asked about it."""

from collections.abc import Callable, Iterator

import pytest
from readings import Pages

from tidegate.postgres.store import PostgresCheckpointStore


@pytest.fixture
def pages(running_url: str, store: PostgresCheckpointStore) -> Iterator[Callable[..., Pages]]:
    made: list[Pages] = []

    def make(**config: object) -> Pages:
        made.append(Pages(running_url, store, **config))
        return made[-1]

    yield make
    for each in made:
        each.readings.close()
