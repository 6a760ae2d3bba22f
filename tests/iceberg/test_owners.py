"""Whose a table is, what a savepoint keeps of it, and a database that was not upgraded."""

import pytest
from marts import Server, values

from tidegate import CheckpointError, IcebergSink
from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.facts.records import CheckpointKind


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
