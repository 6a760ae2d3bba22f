"""An appended table: what a checkpoint adds is there with it, in one transaction, and to every reader."""

from marts import values

from tidegate import IcebergSink


def test_every_reader_sees_the_rows_of_completed_checkpoints(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    assert [of.take(out=values(1, 2)), of.take(out=values(3))] == [1, 2]
    assert lake.values("db.out") == [1, 2, 3]
    assert sorted(lake.duck("db.out")) == [(1,), (2,), (3,)]
    refs = lake.table("db.out").refs()
    assert set(refs) == {"main", "chk-1", "chk-2"}
    assert lake.values("db.out") == [1, 2, 3]
    assert lake.rows("db.out", snapshot_id=refs["chk-1"].snapshot_id) == [{"v": 1}, {"v": 2}]


def test_a_restore_and_its_undo(lake, mart):
    of = mart(out=IcebergSink("db.out"))
    for number in (1, 2, 3):
        of.take(out=values(number))
    of.restore(1)
    assert lake.values("db.out") == [1]
    of.restore()
    assert lake.values("db.out") == [1, 2, 3]
    of.restore(2)
    assert of.take(out=values(40)) == 4
    assert lake.values("db.out") == [1, 2, 40]
