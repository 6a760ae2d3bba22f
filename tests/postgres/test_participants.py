"""What participants may do in a transaction of the store, who is told what when they fail, and what readers see."""

import threading
from contextlib import contextmanager

import pytest
from committed_tables import TablePast, TableSink, places
from sqlalchemy import column, create_engine, insert, literal, select, table, text
from sqlalchemy.exc import DBAPIError

from tidegate.postgres import participants as module
from tidegate.protocol.facts.errors import CheckpointError, SinkError, StoreUnavailableError


@pytest.fixture
def place(store, postgres_server):
    with places(store, postgres_server.url(store._engine.url.database)) as place:
        yield place


@pytest.fixture
def out(place):
    return place("out")


class Doing:
    """A participant whose work is given."""

    def __init__(self, work, name="out"):
        self._work, self._name, self.runs, self.told = work, name, 0, []

    def run(self, statements):
        self.runs += 1
        self._work(statements)

    def explain(self, error):
        self.told.append(error)
        return SinkError(f"{self._name}: {error.message}")


def transact(store, *participants):
    with store.transaction("p", None, participants) as tx:
        return tx.region()


def adding(out, checkpoint_id=1, path="x"):
    def work(statements):
        for statement in out.add(checkpoint_id, [path]):
            assert statements.execute(statement) == 1

    return work


def test_what_they_do_is_committed_although_the_store_changed_nothing(store, out):
    transact(store, Doing(adding(out)), Doing(adding(out, 2)))
    assert out.read() == [(1, "x"), (2, "x")]


def test_an_error_in_the_transaction_takes_it_back(store, out):
    with pytest.raises(RuntimeError), store.transaction("p", None, [Doing(adding(out))]):
        raise RuntimeError
    assert out.read() == []


REFUSED = {
    "COMMIT": "COMMIT",
    "  rollback": "ROLLBACK",
    "/* a word */ SET statement_timeout = 0": "SET",
    "-- a line\nBEGIN": "BEGIN",
    "SAVEPOINT a": "SAVEPOINT",
    "END": "END",
    "PREPARE TRANSACTION 'a'": "PREPARE",
    "DO $$ BEGIN COMMIT; END $$": "DO",
    "CALL p()": "CALL",
    "SELECT 1; COMMIT": "SELECT",
    "COPY t FROM PROGRAM 'x'": "COPY",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_a_statement_that_is_not_theirs_is_refused_and_nothing_is_changed(store, out, statement):
    def work(statements):
        adding(out)(statements)
        statements.execute(text(statement))

    with pytest.raises(
        SinkError, match=f"asked for '{REFUSED[statement]}'.* is not the sink's|One statement at a time"
    ):
        transact(store, Doing(work))
    assert out.read() == []


def test_a_semicolon_at_the_end_does_no_harm(store, out):
    transact(store, Doing(lambda statements: statements.query(text("SELECT 1;"))))


def test_settings_are_those_of_before_when_the_pipeline_is_locked(store):
    def settings(connection):
        return connection.execute(text("SELECT current_setting('statement_timeout')")).scalar()

    with store._engine.connect() as connection:
        before = settings(connection)
    with store.transaction("p", None, [Doing(lambda statements: statements.query(select(literal(1))))]) as tx:
        assert settings(tx._connection) == before


def test_they_are_ended_together_at_the_bound(store, out, monkeypatch):
    monkeypatch.setattr(module, "BOUND", 0.5)

    def sleep(statements):
        adding(out)(statements)
        statements.query(text("SELECT pg_sleep(0.3)"))

    for slow in ([Doing(sleep), Doing(sleep)], [Doing(lambda s: s.query(text("SELECT pg_sleep(60)")))]):
        with pytest.raises(SinkError, match=r"longer than 0\.5 s together.* put the largest of these sinks after"):
            transact(store, *slow)
    assert out.read() == []


def test_a_timeout_of_an_administrator_holds_for_them_too(store, out):
    def long(statements):
        statements.query(text("SELECT pg_sleep(60)"))

    with store._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("ALTER ROLE CURRENT_USER SET statement_timeout = '300ms'"))
    store._engine.dispose()
    try:
        with pytest.raises(StoreUnavailableError, match="statement_timeout is 300ms, set for the role"):
            transact(store, Doing(long))
    finally:
        with store._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ALTER ROLE CURRENT_USER RESET statement_timeout"))
        store._engine.dispose()


@contextmanager
def owned(store, postgres_server):
    owner = create_engine(postgres_server.url(store._engine.url.database))
    with owner.begin() as connection:
        yield connection
    owner.dispose()


def test_a_constraint_that_waits_for_the_commit_is_broken_before_it_and_says_which(store, out, postgres_server):
    with owned(store, postgres_server) as connection:
        constraint = "ALTER TABLE mart.out ADD CONSTRAINT once UNIQUE (path) DEFERRABLE INITIALLY DEFERRED"
        connection.execute(text(constraint))
    first, second = Doing(adding(out)), Doing(adding(out, 2))
    with pytest.raises(SinkError, match="out: duplicate key value"):
        transact(store, first, second)
    (error,) = first.told
    assert (error.sqlstate, error.table, error.constraint) == ("23505", "mart.out", "once")
    assert error.detail == "Key (path)=(x) already exists."
    assert out.read() == []


def test_the_one_whose_statement_fails_says_what_it_means(store, out):
    def wrong(statements):
        statements.execute(insert(table("nowhere", column("a"), schema="mart")).values(a=1))

    good, bad = Doing(adding(out)), Doing(wrong, "bad")
    with pytest.raises(SinkError, match=r"bad: relation .* does not exist"):
        transact(store, good, bad)
    assert (good.told, bad.told[0].sqlstate) == ([], "42P01")
    assert out.read() == []


def test_a_serialisation_failure_is_repeated_once_and_then_told_as_nobodys_fault(store, out):
    class Late(Exception):
        pgcode = "40001"

    def conflict(times):
        def work(statements):
            adding(out)(statements)
            if one.runs <= times:
                raise DBAPIError("UPDATE", {}, Late("could not serialize access"))

        return work

    one = Doing(lambda statements: conflict(1)(statements))
    transact(store, one)
    assert (one.runs, out.read()) == (2, [(1, "x")])
    one = Doing(lambda statements: conflict(9)(statements))
    with pytest.raises(StoreUnavailableError, match="in favour of another transaction"):
        transact(store, one)
    assert (one.runs, out.read()) == (2, [(1, "x")])


def test_of_two_that_wait_for_each_other_both_end_well(store, place):
    """A deadlock ends one of them, which is repeated."""
    tables, met = {name: place(name) for name in ("a", "b")}, threading.Barrier(2, timeout=20)

    def locking(first, second):
        def work(statements):
            statements.execute(text(f"LOCK TABLE mart.{first}"))
            if one[first].runs == 1:
                met.wait()
            statements.execute(text(f"LOCK TABLE mart.{second}"))
            adding(tables[first], 1 if first == "a" else 2)(statements)

        return work

    one = {"a": Doing(locking("a", "b")), "b": Doing(locking("b", "a"))}
    threads = [threading.Thread(target=transact, args=(store, each)) for each in one.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (tables["a"].read(), tables["b"].read()) == ([(1, "x")], [(2, "x")])
    assert sorted(each.runs for each in one.values()) == [1, 2]


# -- what readers see

_SAME = text(
    "SELECT (SELECT xmin::text FROM mart.out WHERE checkpoint_id = :id), "
    "(SELECT xmin::text FROM tidegate.checkpoints WHERE checkpoint_id = :id)"
)
#: In one statement, that is at one instant: whether each checkpoint has completed, and its rows.
_SEEN = text(
    "SELECT c.checkpoint_id, c.completed_at IS NOT NULL, "
    "(SELECT count(*) FROM mart.out o WHERE o.checkpoint_id = c.checkpoint_id), "
    "(SELECT count(*) FROM mart.second o WHERE o.checkpoint_id = c.checkpoint_id) "
    "FROM tidegate.checkpoints c"
)


@pytest.fixture
def past(store, place):
    return TablePast(store, {"out": TableSink(place("out")), "second": TableSink(place("second"), "second")})


def test_rows_and_checkpoint_were_written_by_the_same_transaction(store, past):
    past.finalize("r1")
    with store._engine.connect() as connection:
        rows, checkpoint = connection.execute(_SAME, {"id": 1}).one()
    assert rows == checkpoint


def test_no_reader_ever_sees_one_without_the_other(store, past):
    seen, wrong, over = set(), [], threading.Event()

    def read():
        with store._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not over.is_set():
                for id_, completed, *rows in connection.execute(_SEEN):
                    seen.add((id_, completed))
                    if rows != [int(completed)] * 2:
                        wrong.append((id_, completed, rows))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 21):
            assert past.take(f"r{number}") == number
    finally:
        over.set()
        reader.join()
    assert wrong == []
    assert {completed for _, completed in seen} == {True, False}


def test_a_lease_is_kept_while_a_table_is_held_by_a_stranger(store, past, postgres_server):
    """Who waits is the finalize alone: it holds nothing of the pipeline."""
    past.take("r1")
    with owned(store, postgres_server) as stranger:
        stranger.execute(text("LOCK TABLE mart.out"))
        ended = []
        waiting = threading.Thread(target=lambda: ended.append(past.take("r2")))
        waiting.start()
        while not _waits(store):
            assert waiting.is_alive()
        with store.transaction("p") as tx:
            tx.begin_commit(past.clock.now())
        assert ended == []
    waiting.join(60)
    assert ended == [2]
    assert past.shown() == [1, 2]


def _waits(store):
    wanted = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'mart.out'::regclass"
    with store._engine.connect() as connection:
        return connection.execute(text(wanted)).scalar()


def test_the_transaction_is_a_transaction_of_the_store_and_not_of_the_sink(store, out):
    """Whatever a sink finds to end it is noticed at the latest before the checkpoint completes."""

    def work(statements):
        statements._connection.exec_driver_sql("ROLLBACK")

    with pytest.raises(CheckpointError):
        transact(store, Doing(work))
