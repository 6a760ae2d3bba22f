"""Tables of upserts have what the state has, whatever became of the table or the pipeline between two checkpoints."""

from pathlib import Path
from typing import Any

import pytest
from marts import Server
from upserting_marts import UpsertingMarts

from tidegate import PostgresSink
from tidegate.protocol.facts.errors import RowsRefusedError
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = pytest.mark.spark
BOTH = {"mart", "far"}


@pytest.fixture
def marts(spark: Any, store: Any, home: Any, here: Server, there: Server) -> UpsertingMarts:
    made = UpsertingMarts(spark, store, home, here, there)
    made.take(a=1, b=2)
    made.take(a=3, b=-3, c=4)
    made.check()
    return made


def test_a_sink_that_was_left_by_a_restore_is_given_all_rows_when_it_is_put_back(marts: UpsertingMarts) -> None:
    marts.reopen()
    marts.restore(1)
    marts.reopen(**marts.sinks())
    assert marts.planned() == BOTH
    assert marts.whole(marts.take(d=5)) == BOTH
    marts.check()
    assert marts.planned() == set()
    assert marts.whole(marts.take(a=-9)) == set()
    marts.restore()  # and what they had before comes back
    marts.check()
    marts.restore(1)
    marts.check()
    assert marts.whole(marts.take(e=6)) == set()
    marts.check()


def test_a_restore_that_takes_tables_back_needs_no_more(marts: UpsertingMarts) -> None:
    marts.restore(1)
    marts.check()
    assert marts.whole(marts.take(d=5)) == set()
    marts.check()
    marts.restore()
    marts.check()
    assert marts.whole(marts.take(d=6)) == set()
    marts.check()


@pytest.mark.parametrize("how", ["DROP TABLE {}", "TRUNCATE {}"])
def test_a_table_that_was_dropped_or_emptied_is_given_all_rows(marts: UpsertingMarts, how: str) -> None:
    for name, server in marts.servers.items():
        server.do(how.format(name))
    assert marts.whole(marts.take(d=5)) == BOTH
    marts.check()
    for name, server in marts.servers.items():
        server.do(how.format(name))
    assert marts.whole(marts.take()) == BOTH  # nothing has come
    marts.check()


def test_a_table_that_is_emptied_while_a_checkpoint_is_taken_is_whole_with_the_next_one(marts: UpsertingMarts) -> None:
    marts.put(d=5)
    id_ = marts.validated()
    for name, server in marts.servers.items():
        server.do(f"TRUNCATE {name}")
    marts.coordinator.finalize(id_)
    marts.coordinator.notify(id_)
    assert marts.rows("mart") == {"d": 5}
    assert marts.whole(marts.take(e=6)) == BOTH
    marts.check()


def test_another_database_behind_the_same_connection_is_given_all_rows(
    marts: UpsertingMarts, other_database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = marts.servers["far"]
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", other_database.url)
    marts.servers["far"] = other_database
    assert marts.whole(marts.take(d=5)) == {"far"}
    marts.check()
    monkeypatch.setenv("TIDEGATE_CONNECTION_MARTS", old.url)  # back to one that lacks a checkpoint, as after a backup
    marts.servers["far"] = old
    assert marts.whole(marts.take(a=-9, e=6)) == {"far"}
    marts.check()


def test_a_sink_with_another_name_is_given_all_rows(marts: UpsertingMarts) -> None:
    sinks = marts.sinks()
    marts.reopen(renamed=sinks["mart"], far=sinks["far"])
    assert marts.whole(marts.take(d=5)) == {"renamed"}
    marts.check()
    marts.restore(1)
    marts.check()
    assert marts.whole(marts.take(a=-9)) == {"renamed"}
    marts.check()


def test_a_table_that_was_appended_to_before(marts: UpsertingMarts) -> None:
    marts.reopen(**marts.sinks(), log=PostgresSink("log"))
    marts.take(d=5)
    marts.servers["mart"].do("ALTER TABLE log ALTER _checkpoint DROP NOT NULL, ADD PRIMARY KEY (k)")
    marts.reopen(**marts.sinks(), upserted=PostgresSink("log", "upsert", key="k"))
    with pytest.raises(RowsRefusedError, match="it has a column _checkpoint, a name that the sink needs itself"):
        marts.take(d=-9)
    marts.servers["mart"].do("ALTER TABLE log DROP COLUMN _checkpoint")
    marts.coordinator.abort(4, FailureReason.TASK_FAILURE, "")
    assert marts.whole(marts.take()) == {"upserted"}
    assert dict(marts.servers["mart"].rows("SELECT k, v FROM log")) == marts.state


def test_an_import_takes_tables_back_and_gives_them_all_rows(marts: UpsertingMarts, home: Path) -> None:
    marts.save(str(home / "saved"))
    marts.take(d=5)
    marts.import_(str(home / "saved"))
    marts.check()
    assert marts.whole(marts.take(e=6)) == BOTH
    marts.check()
    marts.restore(2)
    marts.check()
    assert marts.whole(marts.take(f=7)) == set()
    marts.check()
