"""Others write to a table, or change it, while a checkpoint commits: who waits for whom, and what is said."""

import threading
import time
from contextlib import suppress

import psycopg2
import pyarrow as pa
import pytest

from tidegate import PostgresSink
from tidegate.protocol.facts.errors import RowsRefusedError, SinkUnavailableError

SHOWN = "SELECT k, v FROM totals ORDER BY k"
LOCKED = (
    "Table public.totals did not take the rows of checkpoint 2: canceling statement due to lock timeout. Nothing of "
    "the checkpoint is visible, and its rows are staged and safe. Another session has held a lock on the table for "
    "longer than a minute."
)
#: An INSERT of the pipeline takes a while.
SLOW = (
    "CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER slow AFTER INSERT ON {} FOR EACH STATEMENT EXECUTE FUNCTION slow()",
)


def rows(**given):
    return pa.table({"k": list(given), "v": pa.array(given.values(), pa.int64())})


def upserting(make, *tables):
    return make(**{name: PostgresSink(name, "upsert", key="k") for name in tables})


def in_background(work):
    """What it raises is lost: its effect is looked at."""

    def quietly():
        with suppress(psycopg2.Error):
            work()

    thread = threading.Thread(target=quietly)
    thread.start()
    return thread


def test_the_same_keys_in_a_strangers_open_transaction_are_waited_for(impatient, here):
    shop = upserting(impatient, "totals")
    shop.take(totals=rows(a=1, b=1))
    id_ = shop.validated(totals=rows(a=2))
    with here.session() as stranger:
        stranger.execute("INSERT INTO totals VALUES ('a', 70) ON CONFLICT (k) DO UPDATE SET v = excluded.v")
        began = time.monotonic()
        with pytest.raises(SinkUnavailableError) as raised:
            shop.coordinator.finalize(id_)
        assert 0.3 < time.monotonic() - began < 20
        assert str(raised.value).startswith(LOCKED)
        assert "then repeat the finalize step" in str(raised.value)
        assert raised.value.retries is None
        assert here.rows(SHOWN) == [("a", 1), ("b", 1)]
        stranger.connection.commit()
    shop.coordinator.finalize(id_)
    assert here.rows(SHOWN) == [("a", 2), ("b", 1)]
    shop.restore(1)
    assert here.rows(SHOWN) == [("a", 70), ("b", 1)]  # as it was before the checkpoint


@pytest.mark.parametrize("connection", [None, "marts"])
def test_who_writes_the_same_keys_meanwhile_waits_for_the_commit_and_readers_do_not(mart, here, request, connection):
    base = request.getfixturevalue("there") if connection else here
    shop = mart(totals=PostgresSink("totals", "upsert", connection, key="k"))
    shop.take(totals=rows(a=1, b=1))
    base.do(SLOW[0], SLOW[1].format("totals"))
    id_ = shop.finalize(totals=rows(a=2)) if connection else shop.validated(totals=rows(a=2))
    step = shop.coordinator.notify if connection else shop.coordinator.finalize
    committing = threading.Thread(target=step, args=(id_,))
    committing.start()
    while not base.rows(
        "SELECT 1 FROM pg_locks WHERE relation = 'totals'::regclass AND mode = 'ShareRowExclusiveLock'"
    ):
        assert committing.is_alive()
    assert base.rows(SHOWN) == [("a", 1), ("b", 1)]
    stranger = in_background(lambda: base.do("UPDATE totals SET v = v + 10 WHERE k = 'a'"))
    changing = in_background(lambda: base.do("ALTER TABLE totals ADD note text"))
    for thread in (committing, stranger, changing):
        thread.join()
    assert base.rows(SHOWN) == [("a", 12), ("b", 1)]
    shop.take(totals=rows(b=3))  # the new column is the stranger's
    assert base.rows("SELECT * FROM totals ORDER BY k") == [("a", 12, None), ("b", 3, None)]


def test_a_strangers_change_of_the_table_is_waited_for_and_then_found(impatient, here):
    shop = upserting(impatient, "totals")
    shop.take(totals=rows(a=1))
    id_ = shop.validated(totals=rows(a=2))
    with here.session() as stranger:
        stranger.execute("ALTER TABLE totals DROP COLUMN v")
        with pytest.raises(SinkUnavailableError, match="lock timeout") as raised:
            shop.coordinator.finalize(id_)
        assert str(raised.value).startswith("Table public.totals did not take the rows of checkpoint 2")
        stranger.connection.commit()
    with pytest.raises(RowsRefusedError) as raised:
        shop.coordinator.finalize(id_)
    assert str(raised.value) == (
        "Table public.totals did not take the rows of checkpoint 2: it has no column 'v': add it, or leave it out by "
        "columns=. Nothing of the checkpoint is visible, and its rows are staged and safe. Then repeat the finalize "
        "step, or run again if the checkpoint was aborted."
    )
    here.do("ALTER TABLE totals ADD v bigint")
    shop.coordinator.finalize(id_)
    assert here.rows(SHOWN) == [("a", 2)]


def test_a_change_between_the_loading_and_the_transaction_is_named(mart, here):
    shop = upserting(mart, "totals")
    shop.take(totals=rows(a=1))
    id_ = shop.validated(totals=rows(a=2))
    staged = [handle for known in shop.store.subtasks("mart", id_).values() for handle in known.snapshot.handles]
    participant = shop.sinks["totals"].prepare(id_, staged)
    here.do("ALTER TABLE totals RENAME v TO w")
    with (
        pytest.raises(RowsRefusedError, match=r"checkpoint 2: column totals\.v does not exist") as raised,
        shop.store.transaction("mart", None, [participant]),
    ):
        pass
    assert "The table was changed or dropped. Bring it back as it was, or change the pipeline" in str(raised.value)


def test_a_long_transaction_that_has_read_holds_up_no_upsert_and_sees_what_it_saw(impatient, here):
    shop = upserting(impatient, "totals")
    shop.take(totals=rows(a=1))
    with here.session() as stranger:
        stranger.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        stranger.execute(SHOWN)
        shop.take(totals=rows(a=2))
        shop.restore(1)
        shop.restore()
        stranger.execute(SHOWN)
        assert stranger.fetchall() == [("a", 1)]
    assert here.rows(SHOWN) == [("a", 2)]


def test_a_deadlock_with_a_stranger_is_repeated(mart, here):
    """The server ends the commit's transaction, as the one that finds the circle."""
    shop = upserting(mart, "first", "second")
    shop.take(first=rows(a=1), second=rows(a=1))
    here.do(SLOW[0], SLOW[1].format("first"))
    id_ = shop.validated(first=rows(a=2), second=rows(a=2))
    committing = threading.Thread(target=shop.coordinator.finalize, args=(id_,))
    with here.session() as stranger:
        stranger.execute("SET deadlock_timeout = '1min'")
        stranger.execute("UPDATE second SET v = v + 10")
        committing.start()
        while not here.rows("SELECT 1 FROM pg_locks WHERE relation = 'first'::regclass AND mode LIKE 'ShareRow%'"):
            assert committing.is_alive()
        stranger.execute("UPDATE first SET v = v + 10")
        stranger.connection.commit()
    committing.join()
    assert shop.status(id_) == "COMPLETED"
    assert here.rows("SELECT f.v, s.v FROM first f, second s") == [(2, 2)]
    shop.restore(1)
    assert here.rows("SELECT f.v, s.v FROM first f, second s") == [(11, 11)]
