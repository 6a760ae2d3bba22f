"""Whose a table is, what a savepoint keeps of it, and a database that was not upgraded."""

import pytest
from commits import Attempt
from marts import Server, values
from pyiceberg.table import StaticTable

from tidegate import CheckpointError, IcebergSink
from tidegate.iceberg.places import location_now
from tidegate.ports import Branch
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.steps.notify import committables


def test_a_second_pipeline_on_the_same_table_is_refused(lake, mart):
    mart(out=IcebergSink("db.out")).take(out=values(1))
    second = mart(out=IcebergSink("db.out"), name="second")
    with pytest.raises(CheckpointError, match="mart"):
        second.take(out=values(2))
    assert lake.values("db.out") == [1]


def test_a_savepoint_keeps_its_snapshot_and_no_other(lake, mart):
    of = mart(out=IcebergSink("db.out", "latest"), retained=2)
    of.take(out=values(1))
    trigger = of.coordinator.trigger
    of.coordinator.trigger = lambda id_: trigger(id_, kind=CheckpointKind.SAVEPOINT)
    of.take(out=values(2))
    of.coordinator.trigger = trigger
    for number in range(3, 10):
        of.take(out=values(number))
        of.coordinator.clean()
    refs = lake.table("db.out").refs()
    assert "chk-2" in refs
    assert len(refs) <= 5
    assert lake.rows("db.out", snapshot_id=refs["chk-2"].snapshot_id) == [{"v": 2}]
    of.restore(2)
    assert lake.values("db.out") == [2]
    of.restore()
    assert lake.values("db.out") == [9]


def test_a_database_that_was_not_upgraded_is_named(lake, mart, postgres_url):

    Server(postgres_url).do("DROP SCHEMA tidegate_iceberg CASCADE")
    of = mart(out=IcebergSink("db.out"))
    with pytest.raises(SinkError, match="Run `tidegate db upgrade`"):
        of.take(out=values(1))


@pytest.mark.parametrize("catalog", [None, "other"])
@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_checkpoint_that_was_imported_from_a_savepoint_shows_its_rows(
    mart, other_catalog, mode, catalog, monkeypatch
):
    """It adds none: it has those of the savepoint, and no tag before the table is led back to it."""
    monkeypatch.setattr(Attempt, "_newest", 100)
    of = mart(out=IcebergSink("db.out", mode, catalog=catalog))
    for number in (1, 2, 3, 4):
        of.take(out=values(number))
    sink = of.sinks["out"]
    staged = committables(of.store.subtasks("mart", 2), "out-sink") if mode == "latest" else ()
    imported, undone = Branch(((5, 5), (1, 2))), Branch(((1, 4),))
    sink.rewind(5, imported, staged, Attempt())
    assert shown(sink) == ([1, 2] if mode == "append" else [2])
    sink.rewind(4, undone, committables(of.store.subtasks("mart", 4), "out-sink"), Attempt())
    assert shown(sink) == ([1, 2, 3, 4] if mode == "append" else [4])
    sink.rewind(5, imported, staged, Attempt())
    assert shown(sink) == ([1, 2] if mode == "append" else [2])


def shown(sink):
    location = location_now(sink.name)
    return sorted(StaticTable.from_metadata(location).scan().to_arrow()["v"].to_pylist())
