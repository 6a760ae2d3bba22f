"""What a transaction reads together with its lock is what it would read after it."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

from desks import Desk
from sqlalchemy import text
from worlds import Judge

from tidegate.ports import CheckpointStore, Look, StoreTransaction
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.reasons import FailureReason


def _facts(tx: StoreTransaction) -> dict[str, object]:
    return {
        "pipeline": tx.pipeline(),
        "region": tx.region(),
        "committer": tx.committer(),
        "last": tx.last_checkpoint_id(),
        "in progress": tx.in_progress(),
        "latest": tx.latest_completed(),
        "unnotified": tx.unnotified(),
        "retained": tx.retained(),
        "abandoned": tx.abandoned(),
        "cleaning": tx.cleaning(),
        "endpoints": tx.endpoints(),
        "requests": tx.requests(),
        "restores": tx.restores(),
        "imports": tx.imports(),
        "compactions": tx.compactions(),
        "asked": [tx.latest_by_request(f"r{number}") for number in range(5)],
        "named": [tx.checkpoint(number) for number in range(5)],
        "subtasks": [tx.subtasks(number) for number in range(5)],
        "pending": tx.pending_deletions(100),
        "unswept": tx.unswept(),
    }


LOOKS = [Look(), Look("r1"), Look("r2", completed=True), Look("r3"), Look("unknown"), Look(completed=True)]


def test_a_look_changes_no_answer(postgres_url: str) -> None:
    desk = Desk(PostgresCheckpointStore(connect(postgres_url)))
    unknown = [_answers(desk, look) for look in (None, *LOOKS)]
    assert unknown == unknown[:1] * len(unknown)
    for number in (1, 2):
        desk.ask(f"r{number}")
        desk.acknowledge(number)
        desk.coordinator.validate(number, Judge(True))
        desk.coordinator.finalize(number)
        desk.coordinator.notify(number)
        desk.clock.advance(1)
    desk.ask("r3")
    with desk.store.transaction("p") as tx:
        assert tx.fail(3, FailureReason.CHECKPOINT_DECLINED, "on purpose", desk.clock.now())
        tx.begin_region(desk.clock.now())
    desk.ask("r3")
    known = [_answers(desk, look) for look in (None, *LOOKS)]
    assert known[0]["asked"][3].checkpoint_id == 4  # type: ignore[index]
    assert known == known[:1] * len(known)


def _answers(desk: Desk, look: Look | None) -> dict[str, object]:
    with desk.store.transaction("p", look) as tx:
        return _facts(tx)


def test_a_look_that_waited_for_the_lock_sees_what_was_done_meanwhile(postgres_url: str) -> None:
    """A statement sees what was committed when it began, also if it then waits."""
    engine = connect(postgres_url)
    desk = Desk(PostgresCheckpointStore(engine))
    desk.ask("r1")

    def look() -> tuple[list[int], str]:
        with desk.store.transaction("p", Look("r1")) as tx:
            asked = tx.latest_by_request("r1")
            assert asked is not None
            return [record.checkpoint_id for record in tx.in_progress()], asked.status.value

    with ThreadPoolExecutor(1) as beside:
        with desk.store.transaction("p") as tx:
            later = beside.submit(look)
            with engine.connect() as watching:
                while not watching.execute(_WAITING).scalar():
                    assert not later.done()
                    watching.rollback()
                    time.sleep(0.01)
            assert tx.fail(1, FailureReason.CHECKPOINT_DECLINED, "on purpose", desk.clock.now())
        assert later.result() == ([], "FAILED")
    engine.dispose()


class Compared:
    """A store that finds out, after each transaction, whether it knew what it had written."""

    def __init__(self, store: PostgresCheckpointStore) -> None:
        self._store = store
        self.compared = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(self, pipeline_id: str, look: Look | None = None) -> Iterator[StoreTransaction]:
        with self._store.transaction(pipeline_id, look) as tx:
            yield tx
            known = _facts(tx)
        with self._store.transaction(pipeline_id) as tx:
            assert _facts(tx) == known
        self.compared += 1


def test_a_transaction_knows_what_it_has_written(postgres_url: str) -> None:
    store = Compared(PostgresCheckpointStore(connect(postgres_url)))
    desk = Desk(cast(CheckpointStore, store))
    for number in range(1, 5):
        desk.ask(f"r{number}")
        if number == 3:
            desk.coordinator.abort(number, FailureReason.CHECKPOINT_DECLINED, "on purpose")
            continue
        desk.acknowledge(number)
        validated = desk.coordinator.validate(number, Judge(True))
        desk.coordinator.finalize_validated(validated)
        desk.coordinator.notify(number)
        desk.clock.advance(1)
    desk.coordinator.clean()
    assert [record.status.value for record in store.history("p", 4)] == [
        "COMPLETED",
        "FAILED",
        "DISCARDED",
        "DISCARDED",
    ]
    assert store.compared > 20


_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
