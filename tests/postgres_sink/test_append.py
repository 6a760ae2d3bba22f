"""A table to which checkpoints add rows, in the transaction that completes them and after it."""

import pytest
from marts import values
from sqlalchemy import text

from tidegate import PostgresSink
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import Branch
from tidegate.postgres_sink.databases import connected
from tidegate.postgres_sink.names import target_of
from tidegate.protocol.facts.errors import SupersededAttemptError
from tidegate.testing.processes import Child

BOTH = pytest.mark.parametrize("connection", [None, "marts"])


@pytest.fixture
def base(request, here):
    """The database where the table of the test is."""
    return request.getfixturevalue("there") if request.getfixturevalue("connection") else here


@BOTH
def test_each_checkpoint_adds_its_rows_and_says_which_they_are(mart, base, connection):
    shop = mart(orders=PostgresSink("orders", connection=connection))
    assert [shop.take(), shop.take(orders=values(7, 8)), shop.take(orders=values())] == [1, 2, 3]
    assert base.rows("SELECT v, _checkpoint FROM orders ORDER BY v") == [(1, 1), (7, 2), (8, 2)]
    assert base.loaded_tables() == []


def test_rows_become_visible_in_the_transaction_that_completes_the_checkpoint(mart, here):
    shop = mart(orders=PostgresSink("orders"), others=PostgresSink("others"))
    shop.finalize()
    xids = here.rows(
        "SELECT xmin::text FROM orders UNION ALL SELECT xmin::text FROM others UNION ALL "
        "SELECT xmin::text FROM tidegate.checkpoints"
    )
    assert len(xids) == 3
    assert len(set(xids)) == 1


def test_rows_elsewhere_become_visible_after_it(mart, here, there):
    shop = mart(orders=PostgresSink("orders", connection="marts"))
    id_ = shop.finalize()
    assert there.rows("SELECT to_regclass('orders')") == [None]
    shop.coordinator.notify(id_)
    assert there.rows("SELECT v FROM orders") == [1]


@BOTH
def test_a_plan_says_which_rows_a_restore_would_take_back(mart, base, connection):
    shop = mart(orders=PostgresSink("orders", connection=connection))
    for _ in range(3):
        shop.take()
    said = [line.partition(" rows (")[0] for line in shop.coordinator.plan_restore(ToCheckpoint(1)).lines()]
    assert "Sink orders withdraws checkpoints 2, 3: 2" in said


def test_a_table_is_held_before_it_is_asked_whether_the_attempt_is_the_newest(mart, there):
    """Otherwise a restore could come in between, and the table would go on behind it."""
    shop = mart(orders=PostgresSink("orders", connection="marts"))
    shop.take()

    class Ended:
        number = 9

        def confirm(self):
            held = "SELECT count(*) FROM pg_locks WHERE relation = 'tidegate_sinks.positions'::regclass AND mode = "
            assert there.rows(f"{held}'RowShareLock'") == [1]
            raise SupersededAttemptError("a restore has ended it")

    with pytest.raises(SupersededAttemptError):
        shop.sinks["orders"].rewind(2, Branch(((2, None),)), (), Ended())
    assert there.rows("SELECT v FROM orders") == [1]


def test_a_forked_process_has_a_connection_of_its_own(here):
    def session():
        with connected(None, target_of("orders")) as connection:
            return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

    def work():
        assert session() != parents

    parents = session()
    assert session() == parents
    assert not Child(work).wait().error
