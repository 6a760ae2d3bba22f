"""Statements that a session has prepared: planned once, and right whatever happens to the session or the schema."""

from collections.abc import Iterator

import pytest
from desks import Desk
from own_writes import facts_of
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from worlds import Judge

from tidegate.ports import Look
from tidegate.postgres.engine import connect
from tidegate.postgres.prepared import prepared
from tidegate.postgres.store import PostgresCheckpointStore

_KNOWN = text(
    "SELECT name, generic_plans + custom_plans AS asked, generic_plans FROM pg_prepared_statements ORDER BY 1"
)


@pytest.fixture
def engine(postgres_url: str) -> Iterator[Engine]:
    engine = connect(postgres_url)
    yield engine
    engine.dispose()


def test_the_look_of_a_transaction_is_planned_only_at_first(engine: Engine) -> None:
    desk = Desk(PostgresCheckpointStore(engine))
    for number in range(1, 4):
        desk.ask(f"r{number}")
        desk.acknowledge(number)
        desk.coordinator.finalize_validated(desk.coordinator.validate(number, Judge(True)))
        desk.coordinator.notify(number)
        desk.clock.advance(1)
    with engine.connect() as connection:
        found = {row.name: row for row in connection.execute(_KNOWN)}
    assert list(found) == ["lock_pipeline", "look"]
    for row in found.values():
        assert row.asked >= 15
        assert row.generic_plans >= row.asked - 6, "it is planned anew each time"


def test_a_column_that_comes_meanwhile_stops_nobody(engine: Engine, postgres_url: str) -> None:
    """A newer release may upgrade the schema while a process of this one goes on."""
    desk = Desk(PostgresCheckpointStore(engine))
    desk.ask("r1")
    for _ in range(8):
        with desk.store.transaction("p", Look("r1", completed=True)) as tx:
            before = facts_of(tx)
    newer = create_engine(postgres_url)
    with newer.begin() as connection:
        for table in ("pipelines", "checkpoints", "requests", "endpoints", "imports", "restores"):
            connection.execute(text(f"ALTER TABLE tidegate.{table} ADD COLUMN of_tomorrow integer DEFAULT 1"))
    newer.dispose()
    with desk.store.transaction("p", Look("r1", completed=True)) as tx:
        assert facts_of(tx) == before
    desk.acknowledge(1)
    desk.coordinator.finalize_validated(desk.coordinator.validate(1, Judge(True)))
    assert desk.record(1).completed_at is not None


def test_parameters_keep_their_places(engine: Engine) -> None:
    twice = prepared(
        first="SELECT CAST(:a AS text) || '%' || CAST(:b AS text) || CAST(:a AS text) AS said",
        second="SELECT CAST(:b AS text) || '100 %' AS said",
    )
    with engine.connect() as connection:
        for _ in range(2):
            assert connection.execute(twice, {"a": "x", "b": "it's"}).scalar_one() == "it's100 %"
        alone = prepared(first="SELECT CAST(:a AS text) || '%' || CAST(:b AS text) || CAST(:a AS text) AS said")
        assert connection.execute(alone, {"a": "x", "b": "it's"}).scalar_one() == "x%it'sx"


def test_what_cannot_be_prepared_is_an_error_of_the_database_and_known_to_nobody(engine: Engine) -> None:
    wrong, right = prepared(odd="SELECT no_such_column"), prepared(odd="SELECT 1 AS one")
    with engine.connect() as connection:
        with pytest.raises(DBAPIError, match="no_such_column"):
            connection.execute(wrong)
        connection.rollback()
        assert connection.execute(right).scalar_one() == 1


def test_a_new_session_prepares_them_again(engine: Engine) -> None:
    one = prepared(one="SELECT 1 AS one")
    for _ in range(2):
        with engine.connect() as connection:
            assert connection.execute(one).scalar_one() == 1
            connection.invalidate()
