"""The defaults of a role, a database or a server: a transaction states what it needs itself, and a limit that it leaves
as it is, is named when it is reached."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from desks import Desk
from sqlalchemy import create_engine, make_url, text
from store_steps import PIPELINE, at

from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import check, upgrade
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.errors import StoreUnavailableError


class Defaults:
    """Those of the database, for whoever connects from now on."""

    def __init__(self, url: str) -> None:
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT")
        self._database = make_url(url).database

    def set(self, name: str, value: str) -> None:
        self._ask(f"SET {name} = '{value}'")

    def reset(self) -> None:
        self._ask("RESET ALL")
        self._engine.dispose()

    def _ask(self, change: str) -> None:
        with self._engine.connect() as connection:
            connection.execute(text(f'ALTER DATABASE "{self._database}" {change}'))


@pytest.fixture
def defaults(postgres_url: str) -> Iterator[Defaults]:
    defaults = Defaults(postgres_url)
    yield defaults
    defaults.reset()


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_steps_at_once_wait_for_one_another_at_any_default_isolation(
    defaults: Defaults, running_url: str, isolation: str
) -> None:
    defaults.set("default_transaction_isolation", isolation)

    def ask(number: int) -> None:
        desk = Desk(PostgresCheckpointStore(connect(running_url)))
        desk.ask(f"r{number}", wait=True)
        assert desk.store.history("p", 9)
        desk.store.close()

    with ThreadPoolExecutor(4) as processes:
        list(processes.map(ask, range(16)))
    desk = Desk(PostgresCheckpointStore(connect(running_url)))
    desk.complete(1)
    assert desk.record(1).notified_at is not None
    desk.store.close()


def test_upgrades_at_once_wait_for_one_another_at_any_default_isolation(
    defaults: Defaults, postgres_url: str, running_url: str
) -> None:
    defaults.set("default_transaction_isolation", "serializable")
    with create_engine(postgres_url).begin() as connection:
        connection.execute(text("DROP SCHEMA tidegate CASCADE"))
    with ThreadPoolExecutor(2) as processes:
        list(processes.map(upgrade, [postgres_url] * 2))
    engine = connect(running_url)
    check(engine)
    engine.dispose()


def test_a_statement_timeout_is_named_with_its_origin(defaults: Defaults, postgres_url: str) -> None:
    holder = PostgresCheckpointStore(connect(postgres_url))
    with holder.transaction(PIPELINE) as transaction:
        transaction.begin_region(at(0))
    defaults.set("statement_timeout", "150ms")
    waiter = PostgresCheckpointStore(connect(postgres_url))
    with holder.transaction(PIPELINE), pytest.raises(StoreUnavailableError) as caught, waiter.transaction(PIPELINE):
        raise AssertionError("unreachable")
    said = str(caught.value)
    database = make_url(postgres_url).database
    assert "Nothing was changed" in said
    assert f"statement_timeout is 150ms, set for the database {database}" in said
    assert f"ALTER DATABASE {database} SET statement_timeout = …" in said
    assert "URL" not in said
    assert waiter.pipelines() == []
    holder.close()
    waiter.close()


def test_a_database_that_takes_no_writes_is_said_to(defaults: Defaults, running_url: str) -> None:
    defaults.set("default_transaction_read_only", "on")
    store = PostgresCheckpointStore(connect(running_url))
    with pytest.raises(StoreUnavailableError, match=r"takes no writes, .*standby"), store.transaction(PIPELINE):
        raise AssertionError("unreachable")
    store.close()


def test_what_is_committed_waits_for_the_disk(defaults: Defaults, running_url: str) -> None:
    """An administrator may have asked for more than that, and gets it."""
    for given, needed in (("off", "on"), ("remote_apply", "remote_apply")):
        defaults.set("synchronous_commit", given)
        store = PostgresCheckpointStore(connect(running_url))
        with store.transaction(PIPELINE) as transaction:
            transaction.begin_region(at(0))
            transaction.conclude()
            assert transaction._connection.execute(text("SHOW synchronous_commit")).scalar_one() == needed
        store.close()


def test_two_transactions_that_wait_for_each_other_are_named(defaults: Defaults, postgres_url: str) -> None:
    store = PostgresCheckpointStore(connect(postgres_url))
    for pipeline in ("a", "b"):
        with store.transaction(pipeline) as transaction:
            transaction.begin_region(at(0))
    lock = text("SELECT FROM tidegate.pipelines WHERE pipeline_id = :p FOR UPDATE")

    def hold(first: str, second: str) -> None:
        with store.transaction(first) as transaction:
            there.wait()
            transaction._connection.execute(lock, {"p": second})

    there = Barrier(2)
    with ThreadPoolExecutor(2) as processes:
        ended = [processes.submit(hold, *pair) for pair in (("a", "b"), ("b", "a"))]
    errors = [str(each.exception()) for each in ended if each.exception() is not None]
    assert len(errors) == 1
    assert "in favour of another transaction (deadlock detected). Nothing was changed. Run the step again." in errors[0]
    store.close()
