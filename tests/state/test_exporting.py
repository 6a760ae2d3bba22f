"""The state of a subtask, written somewhere else as one run: complete, without tombstones, the same each time,
and with changes or in other key groups where that is asked."""

from dataclasses import replace

import pyarrow as pa
import pytest

from tidegate.protocol.facts.errors import SavepointEditError
from tidegate.protocol.facts.keygroups import key_groups_of
from tidegate.protocol.facts.records import SubtaskId
from tidegate.protocol.recovery.canonical import Rewrite
from tidegate.state.exporting import rewrite_state
from tidegate.state.layout import StateLayout
from tidegate.state.storage import open_storage
from tidegate.state.subtask import scan, upsert

LAYOUT = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("v", pa.string())]), ["k"])


def test_all_runs_become_one_elsewhere_whoever_writes_it_and_the_definition_is_not_needed(
    workshop, hashed, tmp_path
) -> None:
    spec = workshop.spec(LAYOUT)
    for epoch in range(5):
        keys = list(range(epoch, 60, epoch + 1))
        deleted = [epoch > 0 and key % 5 == epoch for key in keys]
        table = pa.table({"k": keys, "v": [f"{epoch}"] * len(keys), "_delete": deleted})
        spec = workshop.next(spec, upsert(hashed(table, ["k"]).to_batches(), spec).write())
    subtask, location = SubtaskId(spec.operator, 0), str(tmp_path / "saved")
    rewrite = Rewrite(subtask, spec.key_groups, spec.max_parallelism, spec.runs, "state/op/0")

    def write():
        return rewrite_state(rewrite, spec.pipeline, spec.checkpoint_id, spec.storage_url, location, spec.cache_dir)

    handle = write()
    assert (handle.path, handle.key_groups, handle.details["tombstones"]) == (
        "state/op/0.parquet",
        spec.key_groups,
        False,
    )
    assert open_storage(location).list("") == [handle.path]
    there = replace(spec, storage_url=location, runs=(handle,))
    before, after = (pa.Table.from_batches(scan(each)).sort_by("k").to_pydict() for each in (spec, there))
    assert 0 < len(before["k"]) == handle.rows
    assert after == before
    assert write() == handle


def changes(hashed, *rows):
    """Rows (key, value, whether it is removed), as an edit gives them."""
    keys, values, removed = ([row[at] for row in rows] for at in range(3))
    return hashed(pa.table({"k": keys, "v": pa.array(values, pa.string()), "_delete": removed}), ["k"]).to_batches()


def written(workshop, hashed, rows):
    spec = workshop.spec(LAYOUT)
    table = hashed(pa.table({"k": list(rows), "v": list(rows.values())}), ["k"])
    return workshop.next(spec, upsert(table.to_batches(), spec).write())


def rows_of(*specs):
    return {row["k"]: row["v"] for spec in specs for batch in scan(spec) for row in batch.to_pylist()}


def test_changes_replace_add_and_remove_keys_and_all_others_stay(workshop, hashed, tmp_path) -> None:
    spec = written(workshop, hashed, dict.fromkeys(range(50), "old"))
    rewrite = Rewrite(SubtaskId(spec.operator, 0), spec.key_groups, spec.max_parallelism, spec.runs, "state/op/0")
    given = changes(hashed, (7, "new", False), (99, "new", False), (8, None, True), (98, None, True), (9, None, False))
    location = str(tmp_path / "saved")
    handle = rewrite_state(rewrite, "p", 3, spec.storage_url, location, spec.cache_dir, LAYOUT, given)
    there = replace(spec, storage_url=location, runs=(handle,))
    expected = {key: "old" for key in range(50) if key != 8} | {7: "new", 99: "new", 9: None}
    assert rows_of(there) == expected
    alone = replace(rewrite, runs=(), path="state/op/alone")
    handle = rewrite_state(alone, "p", 3, spec.storage_url, location, spec.cache_dir, LAYOUT, given)
    assert rows_of(replace(there, runs=(handle,))) == {7: "new", 99: "new", 9: None}


@pytest.mark.parametrize("second", [("new", False), (None, True)], ids=["replaced twice", "replaced and removed"])
def test_a_key_that_is_given_twice_is_named_and_nothing_is_written(workshop, hashed, tmp_path, second) -> None:
    spec = written(workshop, hashed, {1: "old"})
    rewrite = Rewrite(SubtaskId(spec.operator, 0), spec.key_groups, spec.max_parallelism, spec.runs, "state/op/0")
    given = changes(hashed, (7, "new", False), (7, *second))
    with pytest.raises(SavepointEditError, match="name the key k=7 2 times"):
        rewrite_state(rewrite, "p", 3, spec.storage_url, str(tmp_path / "saved"), spec.cache_dir, LAYOUT, given)
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize(("parallelism", "groups"), [(3, 256), (5, 7), (1, 32768), (200, 256)])
def test_another_number_of_key_groups_cuts_the_same_rows_elsewhere(
    workshop, hashed, tmp_path, parallelism, groups
) -> None:
    spec = written(workshop, hashed, {key: f"{key}" for key in range(500)})
    former, location, found = spec.max_parallelism, str(tmp_path / "saved"), []
    for index in range(parallelism):
        own = key_groups_of(index, parallelism, groups)
        rewrite = Rewrite(SubtaskId(spec.operator, index), own, groups, spec.runs, f"state/op/{index}", former)
        handle = rewrite_state(rewrite, "p", 3, spec.storage_url, location, spec.cache_dir)
        assert handle.details["max_parallelism"] == groups
        moved = replace(spec, storage_url=location, key_groups=own, max_parallelism=groups, runs=(handle,))
        assert len(rows_of(moved)) == handle.rows
        found.append(moved)
    assert sum(len(rows_of(each)) for each in found) == 500
    assert rows_of(*found) == {key: f"{key}" for key in range(500)}
