"""The state of a subtask, written somewhere else as one run: complete, without tombstones, the same each time."""

from dataclasses import replace

import pyarrow as pa

from tidegate.protocol.canonical import Rewrite
from tidegate.protocol.records import SubtaskId
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
        spec = workshop.next(spec, upsert(hashed(table, ["k"]).to_batches(), spec).handle)
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
