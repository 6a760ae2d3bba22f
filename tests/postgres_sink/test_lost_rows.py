"""Loaded rows that are lost, tables with loaded rows that nobody needs, and places that are another pipeline's."""

import pytest

from tidegate import PostgresSink
from tidegate.postgres_sink.append import Append
from tidegate.protocol.facts.errors import PipelineIdentityError, SinkError

BOTH = pytest.mark.parametrize("connection", [None, "marts"])


def before_running(monkeypatch, do):
    """Let something happen between the loading and the transaction, once."""
    run, done = Append.run, []

    def late(self, statements):
        if not done:
            done.append(True)
            do()
        run(self, statements)

    monkeypatch.setattr(Append, "run", late)


@BOTH
def test_rows_that_were_lost_since_they_were_loaded_are_missed_and_loaded_again(
    mart, here, request, monkeypatch, connection
):
    base = request.getfixturevalue("there") if connection else here
    shop = mart(orders=PostgresSink("orders", connection=connection))
    before_running(monkeypatch, lambda: base.do(f"TRUNCATE tidegate_sinks.{base.loaded_tables()[0]}"))
    id_ = shop.finalize() if connection else shop.validated()
    step = shop.coordinator.notify if connection else shop.coordinator.finalize
    with pytest.raises(SinkError, match=r"0 rows for table .* were loaded, and 1 were staged") as raised:
        step(id_)
    assert raised.value.retries is None
    assert base.rows("SELECT * FROM orders") == []
    step(id_)
    assert base.rows("SELECT v FROM orders") == [1]


def test_tables_that_crashed_attempts_have_left_are_found_and_dropped(mart, here):
    shop = mart(orders=PostgresSink("orders"))
    sink = shop.sinks["orders"]
    id_ = shop.validated()
    (staged,) = [handle for known in shop.store.subtasks("mart", id_).values() for handle in known.snapshot.handles]
    for _ in range(2):  # two attempts load, and end there
        sink.prepare(id_, [staged])
    assert len(here.loaded_tables()) == 2
    assert [path for path in sink.staged_paths(id_) if path.endswith(".loaded")] == []  # they may still be needed
    shop.coordinator.finalize(id_)
    assert here.rows("SELECT v FROM orders") == [1]
    left = [path for path in sink.staged_paths(id_) if path.endswith(".loaded")]
    assert len(left) == 2
    assert sink.staged_checkpoints() == [1]
    sink.discard(left)
    assert here.loaded_tables() == []
    assert here.rows("SELECT v FROM orders") == [1]


@BOTH
def test_a_table_has_one_pipeline(mart, here, request, connection):
    if connection:
        request.getfixturevalue("there")
    sink = PostgresSink("orders", connection=connection)
    mart(name="one", orders=sink).take()
    with pytest.raises(PipelineIdentityError, match="one"):
        mart(name="two", orders=sink).take()
