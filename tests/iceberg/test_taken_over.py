"""Files that a table has taken over are never deleted, whatever the pipeline forgets. Those that it has not, are."""

import pyarrow as pa
import pytest
from iceberg_tables import files_below

from tidegate import IcebergSink
from tidegate.iceberg.garbage import referenced
from tidegate.protocol.steps.notify import committables


def everything(of, name="out"):
    """Files of data and metadata."""
    found = files_below(of.sinks[name].root)
    return sorted(f for f in found if f.startswith("data/")), sorted(f for f in found if f.startswith("metadata/"))


def grown(lake, mart, mode, checkpoints, **given):
    of = mart(out=IcebergSink("db.out", mode, readable_for="0 s"), **given)
    for _ in range(checkpoints):
        of.take()
        of.coordinator.clean()
    return of


def test_an_appended_table_keeps_all_rows_when_their_checkpoints_are_gone(lake, mart):
    of = grown(lake, mart, "append", 6, retained=1)
    assert lake.values("db.out") == [1, 2, 3, 4, 5, 6]
    assert len(lake.duck("db.out")) == 6
    data, _ = everything(of)
    assert len(data) == 6
    assert set(lake.table("db.out").refs()) <= {"main", "chk-5", "chk-6"}


def test_a_table_that_is_replaced_keeps_what_it_has_and_nothing_else(lake, mart):
    of = grown(lake, mart, "latest", 6, retained=1)
    assert lake.values("db.out") == [6]
    data, _ = everything(of)
    assert len(data) <= 2


def test_a_snapshot_with_a_tag_or_branch_of_the_user_keeps_its_files(lake, mart):
    of = grown(lake, mart, "latest", 2, retained=1)
    table = lake.table("db.out")
    with table.manage_snapshots() as manage:
        manage.create_tag(table.current_snapshot().snapshot_id, "audit")
        manage.create_branch(table.current_snapshot().snapshot_id, "experiment")
    for _ in range(4):
        of.take()
        of.coordinator.clean()
    table = lake.table("db.out")
    assert table.scan(snapshot_id=table.refs()["audit"].snapshot_id).to_arrow()["v"].to_pylist() == [2]
    assert table.scan(snapshot_id=table.refs()["experiment"].snapshot_id).to_arrow()["v"].to_pylist() == [2]
    assert lake.values("db.out") == [6]


def test_nothing_is_discarded_that_a_snapshot_has_whoever_asks(lake, mart):
    of = grown(lake, mart, "append", 2)
    sink, before = of.sinks["out"], everything(of)
    sink.discard([*before[0], *before[1]])
    data, _ = everything(of)
    assert data == before[0]
    assert lake.values("db.out") == [1, 2]


def test_what_attempts_left_behind_is_found_and_deleted(lake, mart):
    of = mart(out=IcebergSink("db.out", readable_for="0 s"))
    sink = of.sinks["out"]
    of.take()
    id_ = of.validated()
    staged = committables(of.store.subtasks("mart", id_), "out-sink")
    for _ in range(3):
        sink.prepare(id_, staged)  # three processes that died before their transactions
    before = everything(of)[1]
    of.coordinator.finalize(id_)
    of.coordinator.notify(id_)
    of.coordinator.clean()
    _, metadata = everything(of)
    assert len(metadata) < len(before)
    assert set(referenced(sink.name, sink.root, metadata)) == set(metadata)
    assert lake.values("db.out") == [1, 2]


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_files_of_metadata_do_not_add_up(lake, mart, mode):
    of = grown(lake, mart, mode, 30, retained=3)
    _, metadata = everything(of)
    assert len(metadata) < 60
    assert len(lake.table("db.out").metadata.snapshots) <= 5
    assert set(referenced(of.sinks["out"].name, of.sinks["out"].root, metadata)) == set(metadata)
    of.take(out=pa.table({"v": pa.array([99], pa.int64())}))
    assert 99 in lake.values("db.out")
