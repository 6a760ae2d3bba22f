"""Behind a pooler that lends a session for one transaction at a time: everything works but to hear of changes, and who
needs that is told so."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from desks import Desk
from poolers import pooled
from sqlalchemy import text
from store_steps import PIPELINE, SUBTASKS, at, record, triggered

from tidegate.airflow.triggers import AcknowledgeTrigger
from tidegate.postgres.engine import IDLE_IN_TRANSACTION_TIMEOUT, LOCK_TIMEOUT, connect
from tidegate.postgres.listening import ChangeListener
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.project.doctor import examine
from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.facts.reasons import FailureReason


@pytest.fixture
def pooled_url(running_url: str) -> Iterator[str]:
    with pooled(running_url) as url:
        yield url


@pytest.fixture
def pooled_store(pooled_url: str) -> Iterator[PostgresCheckpointStore]:
    store = PostgresCheckpointStore(connect(pooled_url))
    yield store
    store.close()


def test_the_pooler_of_these_tests_lends_another_session_each_time(pooled_url: str) -> None:
    engine = connect(pooled_url)
    with engine.connect() as connection:
        seen = set()
        for _ in range(3):
            seen.add(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
            connection.rollback()
    engine.dispose()
    assert len(seen) == 3


def test_a_checkpoint_takes_all_its_steps_while_others_read(pooled_url: str) -> None:
    desk, reader = (Desk(PostgresCheckpointStore(connect(pooled_url))) for _ in range(2))

    def take() -> None:
        for number in range(1, 6):
            desk.ask(f"r{number}")
            desk.complete(number)
            desk.clock.advance(1)

    with ThreadPoolExecutor(1) as background:
        taking = background.submit(take)
        while not taking.done():
            assert len(reader.store.history("p", 9)) <= 5
    taking.result()
    assert desk.record(5).notified_at is not None
    for each in (desk, reader):
        each.store.close()


def test_each_transaction_states_its_settings(pooled_url: str) -> None:
    engine = connect(pooled_url)
    asked = text(
        "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout'), "
        "current_setting('timezone'), current_setting('transaction_isolation')"
    )
    needed = (f"{LOCK_TIMEOUT // 60}min", f"{IDLE_IN_TRANSACTION_TIMEOUT}s", "UTC", "read committed")
    for _ in range(4):
        with engine.connect() as connection:
            assert tuple(connection.execute(asked).one()) == needed
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            assert tuple(connection.execute(asked).one()) == needed
    engine.dispose()


def test_to_wait_for_changes_without_a_direct_connection_is_refused(pooled_store: PostgresCheckpointStore) -> None:
    triggered(pooled_store)
    with pytest.raises(ConfigurationError, match=r"pooler .* TIDEGATE_DATABASE_DIRECT_URL"):
        pooled_store.wait_for_change(PIPELINE, 0)


def test_changes_are_heard_on_the_direct_connection(pooled_url: str, running_url: str) -> None:
    store = PostgresCheckpointStore(connect(pooled_url), connect(running_url))
    triggered(store)
    store.wait_for_change(PIPELINE, 0)
    triggered(store)
    assert store.wait_for_change(PIPELINE, 10)
    store.close()


def test_a_server_without_a_pooler_is_not_tried(running_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = connect(running_url)
    monkeypatch.setattr("tidegate.postgres.listening._LISTEN_TRIAL", text("SELECT never"))
    listener = ChangeListener(engine)
    listener.open()
    listener.close()
    engine.dispose()


@pytest.mark.parametrize("direct", [False, True])
def test_the_doctor_sees_it(pooled_url: str, running_url: str, direct: bool) -> None:
    environment = {**os.environ, "TIDEGATE_DATABASE_URL": pooled_url}
    if direct:
        environment["TIDEGATE_DATABASE_DIRECT_URL"] = running_url
    found = next(each for each in examine(environment) if each.what == "database")
    assert found.ok is direct
    assert ("pooler" in found.says) is not direct
    assert found.mend == (None if direct else "export TIDEGATE_DATABASE_DIRECT_URL=postgresql://…")


def test_a_trigger_waits_by_looking(
    pooled_url: str, pooled_store: PostgresCheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", pooled_url)
    due = datetime.now(UTC) + timedelta(hours=1)
    with pooled_store.transaction(PIPELINE) as transaction:
        transaction.add_pending(replace(record(1, "r1"), deadline=due), SUBTASKS)
    waiting = AcknowledgeTrigger(PIPELINE, 1, poll_interval=0.1)

    async def fires(patience: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                return [event async for event in waiting.run()] != []
        return False

    assert not asyncio.run(fires(1))
    with pooled_store.transaction(PIPELINE) as transaction:
        transaction.fail(1, FailureReason.CHECKPOINT_DECLINED, "on purpose", at(1))
    assert asyncio.run(fires(10))


class Unanswered(AcknowledgeTrigger):
    """Its rollback gets no answer once it is cancelled."""

    async def time_to_wait(self, connection: object) -> float:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as error:
            raise TimeoutError from error
        return 60.0


def test_a_trigger_that_is_cancelled_ends_though_the_database_does_not_answer(
    running_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)

    async def cancelled() -> None:
        async with asyncio.timeout(3):
            async for _ in Unanswered(PIPELINE, 1).run():
                pass

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())
