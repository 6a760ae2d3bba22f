"""Commits of others to a table, before, between and in the middle of those of checkpoints."""

import pyarrow as pa
import pytest
from marts import values

from tidegate import IcebergSink
from tidegate.protocol.facts.errors import SinkError


def meanwhile(of, do):
    """Run something between the preparation of a checkpoint and its transaction."""
    sink, prepare = of.sinks["out"], of.sinks["out"].prepare

    def prepared(*args):
        found = prepare(*args)
        object.__setattr__(sink, "prepare", prepare)
        do()
        return found

    object.__setattr__(sink, "prepare", prepared)


def append(lake, *numbers):
    return lambda: lake.table("db.out").append(pa.table({"v": pa.array(numbers, pa.int64())}))


def compact(lake):
    """All rows in one file, as another engine does it."""

    def do():
        table = lake.table("db.out")
        table.overwrite(table.scan().to_arrow())

    return do


def test_an_append_goes_on_top_of_what_others_have_done_meanwhile(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    of.take(out=values(1))
    append(lake, 10)()
    of.take(out=values(2))
    meanwhile(of, append(lake, 20))
    of.take(out=values(3))
    meanwhile(of, compact(lake))
    of.take(out=values(4))
    assert lake.values("db.out") == [1, 2, 3, 4, 10, 20]
    for number in range(5, 9):
        of.take(out=values(number))
        of.coordinator.clean()
    assert lake.values("db.out") == [1, 2, 3, 4, 5, 6, 7, 8, 10, 20]
    assert len(lake.duck("db.out")) == 10


def test_rows_that_others_delete_stay_deleted(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    of.take(out=values(1, 2, 3))
    lake.table("db.out").delete("v = 2")
    of.take(out=values(4))
    assert lake.values("db.out") == [1, 3, 4]


def test_a_table_that_is_replaced_is_not_written_over(lake, mart):
    of = mart(out=IcebergSink("db.out", "latest"))
    of.take(out=values(1))
    meanwhile(of, append(lake, 10))
    id_ = of.validated(out=values(2))
    with pytest.raises(SinkError) as refused:
        of.coordinator.finalize(id_)
    head = lake.table("db.out").current_snapshot().snapshot_id
    assert f"another writer has committed snapshot {head}" in str(refused.value)
    assert of.status(id_) == "IN_PROGRESS"
    assert lake.values("db.out") == [1, 10]
    table = lake.table("db.out")
    table.manage_snapshots().rollback_to_snapshot(table.refs()["chk-1"].snapshot_id).commit()
    of.coordinator.finalize(id_)
    assert lake.values("db.out") == [2]


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_restore_takes_back_what_others_have_done_since_and_an_undo_brings_it_back(lake, mart, mode):
    of = mart(out=IcebergSink("db.out", mode))
    of.take(out=values(1))
    of.take(out=values(2))
    append(lake, 10)()
    before = lake.values("db.out")
    of.restore(1)
    assert lake.values("db.out") == [1]
    of.restore()
    assert lake.values("db.out") == before


def test_a_table_of_the_users_keeps_its_rows(lake, mart, home):
    first = mart(out=IcebergSink("db.first"))
    first.take(out=values(0))
    catalog = lake.catalog()
    catalog.create_table("db.out", schema=pa.schema({"v": pa.int64()}), location=f"file://{home}/elsewhere/out")
    catalog.close()
    append(lake, 10)()
    of = mart(out=IcebergSink("db.out"), name="second")
    of.take(out=values(1))
    of.take(out=values(2))
    assert lake.values("db.out") == [1, 2, 10]
    assert lake.table("db.out").refs()["chk-0"].snapshot_id
    of.restore(1)
    assert lake.values("db.out") == [1, 10]
    assert len(lake.duck("db.out")) == 2
