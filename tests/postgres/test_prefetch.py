"""What a transaction reads together with its lock is what it would read after it."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from desks import Desk
from own_writes import facts_of
from sqlalchemy import text
from worlds import Judge

from tidegate.ports import Prefetch
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.reasons import FailureReason

PREFETCHES = [
    Prefetch(),
    Prefetch("r1"),
    Prefetch("r2", completed=True),
    Prefetch("r3"),
    Prefetch("unknown"),
    Prefetch(completed=True),
]


def test_a_prefetch_changes_no_answer(postgres_url: str) -> None:
    desk = Desk(PostgresCheckpointStore(connect(postgres_url)))
    unknown = [_answers(desk, prefetch) for prefetch in (None, *PREFETCHES)]
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
    known = [_answers(desk, prefetch) for prefetch in (None, *PREFETCHES)]
    assert known[0]["asked"][3].checkpoint_id == 4
    assert known == known[:1] * len(known)


def _answers(desk: Desk, prefetch: Prefetch | None) -> dict[str, Any]:
    with desk.store.transaction("p", prefetch) as tx:
        return facts_of(tx)


def test_a_prefetch_that_waited_for_the_lock_sees_what_was_done_meanwhile(postgres_url: str) -> None:
    """A statement sees what was committed when it began, also if it then waits."""
    engine = connect(postgres_url)
    desk = Desk(PostgresCheckpointStore(engine))
    desk.ask("r1")

    def read_after_the_lock() -> tuple[list[int], str]:
        with desk.store.transaction("p", Prefetch("r1")) as tx:
            asked = tx.latest_by_request("r1")
            assert asked is not None
            return [record.checkpoint_id for record in tx.in_progress()], asked.status.value

    with ThreadPoolExecutor(1) as background:
        with desk.store.transaction("p") as tx:
            later = background.submit(read_after_the_lock)
            with engine.connect() as watching:
                while not watching.execute(_WAITING).scalar():
                    assert not later.done()
                    watching.rollback()
                    time.sleep(0.01)
            assert tx.fail(1, FailureReason.CHECKPOINT_DECLINED, "on purpose", desk.clock.now())
        assert later.result() == ([], "FAILED")
    engine.dispose()


_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
