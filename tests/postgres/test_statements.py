"""What a checkpoint asks of PostgreSQL: each step reads a fact once, and hands on what it knows.

The numbers are what it takes today. One that falls may be lowered here; one that grows needs a reason.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from desks import Desk
from sqlalchemy import Engine, event
from worlds import Judge

from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.trigger import Triggered


@pytest.fixture
def engine(postgres_url: str) -> Iterator[Engine]:
    engine = connect(postgres_url)
    yield engine
    engine.dispose()


@contextmanager
def counted(engine: Engine) -> Iterator[Counter[str]]:
    sent: Counter[str] = Counter()

    def count(what: str) -> None:
        sent[what] += 1

    listeners = {
        "begin": lambda *_: count("transactions"),
        "commit": lambda *_: count("commits"),
        "before_cursor_execute": lambda *_: count("statements"),
    }
    for name, listener in listeners.items():
        event.listen(engine, name, listener)
    try:
        yield sent
    finally:
        for name, listener in listeners.items():
            event.remove(engine, name, listener)


def test_a_step_takes_no_more_transactions_and_statements_than_it_needs(engine: Engine) -> None:
    desk = Desk(PostgresCheckpointStore(engine))
    for number in range(1, 5):
        assert desk.ask(f"r{number}") == Triggered(number)
        desk.complete(number)
        desk.clock.advance(1)
    steps = {
        "trigger": lambda: desk.ask("r5"),
        "snapshot": lambda: desk.acknowledge(5),
        "validate": lambda: desk.coordinator.validate(5, Judge(True)),
        "finalize": lambda: desk.coordinator.finalize(5),
        "notify": lambda: desk.coordinator.notify(5),
    }
    found = {}
    for name, step in steps.items():
        with counted(engine) as sent:
            step()
        found[name] = (sent["transactions"], sent["commits"], sent["statements"])
    assert desk.record(5).notified_at is not None
    assert found == NEEDED


#: Transactions, those of them that write, and statements. Reads outside of a transaction count as one each.
NEEDED = {
    "trigger": (2, 1, 14),
    "snapshot": (3, 2, 20),
    "validate": (2, 1, 13),
    "finalize": (3, 1, 18),
    "notify": (9, 3, 33),
}


def test_a_fact_is_read_again_after_a_write(engine: Engine) -> None:
    desk = Desk(PostgresCheckpointStore(engine))
    desk.ask("r1")
    with desk.store.transaction("p") as tx, counted(engine) as sent:
        first = tx.checkpoint(1)
        assert tx.checkpoint(1) == first
        assert [record.checkpoint_id for record in tx.in_progress()] == [1]
        assert sent["statements"] == 2
        assert first is not None
        tx.begin_attempt(1)
        before = sent["statements"]
        assert tx.checkpoint(1) == first
        assert sent["statements"] == before + 1
