"""A read model on a real database, whose storage is the one that a desk writes to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from desks import Desk
from sqlalchemy.engine import make_url

from tidegate.ports import KeyReader, ReadableStorage
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.reading.readings import Readings
from tidegate.state.stored import StoredState

#: Names that a page, a statement or a header could take for something else.
HOSTILE = "<script>alert(1)</script>' OR 1=1 --\"; %s {{7*7}} \u202e ../../etc/passwd %_\\"


@contextmanager
def reading(url: str, storage: ReadableStorage, now: Any, keys: KeyReader | None = None) -> Iterator[Readings]:
    readings = Readings(connect(make_url(url)), now, lambda: storage, keys or StoredState("nowhere", None))
    try:
        yield readings
    finally:
        readings.close()


class Pages(Desk):
    """A desk, and what can be asked of its database."""

    def __init__(self, url: str, store: PostgresCheckpointStore, **config: object) -> None:
        super().__init__(store, **config)
        keys = StoredState("nowhere", None)
        self.readings = Readings(connect(make_url(url)), self.clock.now, lambda: self.storage, keys)

    def take(self, request_id: str, **how: Any) -> int:
        """A completed checkpoint, a minute after the one before."""
        self.clock.advance(60)
        taken = self.ask(request_id, **how).checkpoint_id
        self.complete(taken)
        return taken
