"""What a checkpoint asks of PostgreSQL: each step reads a fact once.

The numbers are what it takes today. One that falls may be lowered here; one that grows needs a reason.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from desks import Desk
from sqlalchemy import Engine, event
from worlds import Judge

from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason


@pytest.fixture
def engine(postgres_url: str) -> Iterator[Engine]:
    engine = connect(postgres_url)
    yield engine
    engine.dispose()


Asked = tuple[int, int, int, int]


@contextmanager
def counted(engine: Engine) -> Iterator[Counter[str]]:
    sent: Counter[str] = Counter()

    def count(what: str) -> None:
        sent[what] += 1

    def asked(_connection: object, _cursor: object, request: str, *_: object) -> None:
        """Several statements may travel together, and each takes PostgreSQL its own work."""
        sent["requests"] += 1
        sent["statements"] += sum(bool(statement.strip()) for statement in request.split(";"))

    listeners = {
        "begin": lambda *_: count("transactions"),
        "commit": lambda *_: count("commits"),
        "before_cursor_execute": asked,
    }
    for name, listener in listeners.items():
        event.listen(engine, name, listener)
    try:
        yield sent
    finally:
        for name, listener in listeners.items():
            event.remove(engine, name, listener)


def test_a_step_takes_no_more_transactions_and_statements_than_it_needs(engine: Engine) -> None:
    """Where each has a process of its own, as tasks of a DAG have."""
    assert _asked_by_steps(engine, alone=True) == ALONE


def test_a_process_that_takes_all_steps_asks_less(engine: Engine) -> None:
    """A commit of sinks begins where its checkpoint completes: a continuous run, `tidegate run`."""
    assert _asked_by_steps(engine, alone=False) == IN_A_ROW


def _asked_by_steps(engine: Engine, alone: bool) -> dict[str, Asked]:
    desk = Desk(PostgresCheckpointStore(engine))

    def take(number: int) -> dict[str, Asked]:
        steps: dict[str, Callable[[], object]] = {
            "trigger": lambda: desk.ask(f"r{number}"),
            "snapshot": lambda: desk.acknowledge(number),
            "validate": lambda: desk.coordinator.validate(number, Judge(True)),
            "finalize": lambda: desk.coordinator.finalize(number, notifies=not alone),
            "notify": lambda: desk.coordinator.notify(number),
        }
        found = {}
        for name, step in steps.items():
            if alone:
                desk.reopen(desk.store)
            with counted(engine) as sent:
                step()
            found[name] = (sent["transactions"], sent["commits"], sent["requests"], sent["statements"])
        assert desk.record(number).notified_at is not None
        desk.clock.advance(1)
        return found

    return [take(number) for number in range(1, 6)][-1]


#: Transactions, those of them that write, requests, and the statements in them. Reads outside of a transaction count as
#: one each; what a driver sends to begin and to end a transaction does not count. One sink is asked to confirm its
#: commit.
ALONE = {
    "trigger": (2, 1, 5, 6),
    "snapshot": (2, 2, 8, 10),
    "validate": (2, 1, 6, 8),
    "finalize": (2, 1, 7, 9),
    "notify": (3, 2, 11, 12),
}
IN_A_ROW = {
    "trigger": (1, 1, 3, 4),
    "snapshot": (2, 2, 8, 10),
    "validate": (2, 1, 6, 8),
    "finalize": (2, 1, 8, 10),
    "notify": (2, 1, 6, 6),
}


def test_a_fact_is_read_again_after_a_write_that_it_is_about(engine: Engine) -> None:
    desk = Desk(PostgresCheckpointStore(engine))
    desk.ask("r1")
    with desk.store.transaction("p") as tx, counted(engine) as sent:
        first = tx.checkpoint(1)
        assert tx.checkpoint(1) == first
        assert tx.in_progress() == [first]
        assert tx.latest_completed() is None
        assert tx.restores() == tx.requests() == []
        assert sent["statements"] == 1
        assert first is not None
        tx.begin_attempt(1)
        assert tx.in_progress() == [first]
        assert sent["statements"] == 2
        tx.add_pending(replace(first, checkpoint_id=2, request_id="r2"), desk.coordinator.graph.subtasks)
        assert [record.checkpoint_id for record in tx.in_progress()] == [1, 2]
        assert sent["statements"] == 4
        assert tx.fail(1, FailureReason.CHECKPOINT_DECLINED, "on purpose", desk.clock.now())
        before = sent["statements"]
        assert [record.checkpoint_id for record in tx.in_progress()] == [2]
        failed = tx.checkpoint(1)
        assert failed is not None
        assert failed.status is Status.FAILED
        assert sent["statements"] == before
    assert desk.store.checkpoint("p", 1) == failed
