"""Damaged, missing and changed state: an error that names the file and what to do, never fewer rows."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.pipeline.aggregates import count, max_, sum_
from tidegate.protocol.facts.errors import CheckpointDeclinedError, StateIntegrityError, StateSchemaError, StorageError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.records import StateHandle
from tidegate.state.compaction import compact
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import SubtaskSpec, aggregate, lookup, scan, upsert

SCHEMA = pa.schema([("carrier", pa.string()), ("minutes", pa.int64())])
LAYOUT = StateLayout.of_rows(SCHEMA, ["carrier"])

pytestmark = pytest.mark.usefixtures("reading")


def rows(hashed: Any, *carriers: str) -> list[Any]:
    return hashed(pa.table([list(carriers), range(len(carriers))], schema=SCHEMA), ["carrier"]).to_batches()


@pytest.fixture
def written(workshop, hashed) -> tuple[SubtaskSpec, StateHandle]:
    """A run of three carriers, and the spec of the checkpoint that follows it."""
    spec = workshop.spec(LAYOUT)
    run = upsert(rows(hashed, "AA", "UA", "DL"), spec).write()
    assert run is not None
    return workshop.next(spec, run), run


def forget(cache: Path) -> None:
    shutil.rmtree(cache, ignore_errors=True)


def test_a_missing_run_names_the_file_the_storage_and_the_operator(workshop, written) -> None:
    spec, run = written
    forget(workshop.cache)
    workshop.file(run).unlink()
    with pytest.raises(StateIntegrityError) as raised:
        list(scan(spec))
    assert str(raised.value) == (
        f"The file {run.path} is missing from checkpoint storage {workshop.storage}. Nothing was changed. "
        "Restore the file from a copy of the storage, or go back to a checkpoint that does not refer to it. It belongs "
        "to the state of operator carrier_delays of pipeline flight_delays, checkpoint 8."
    )


def test_a_truncated_run_says_how_much_is_there_and_how_much_was_written(workshop, written) -> None:
    spec, run = written
    forget(workshop.cache)
    content = workshop.file(run).read_bytes()
    workshop.file(run).write_bytes(content[:-100])
    with pytest.raises(StateIntegrityError) as raised:
        list(scan(spec))
    text = str(raised.value)
    assert f"The state file {run.path}, written by checkpoint 7, is damaged" in text
    assert f"it has {len(content) - 100:,} bytes where {len(content):,} were written" in text
    assert "operator carrier_delays of pipeline flight_delays, checkpoint 8. Nothing was changed." in text


def test_a_single_altered_byte_is_found_by_the_checksum(workshop, written) -> None:
    spec, run = written
    forget(workshop.cache)
    content = bytearray(workshop.file(run).read_bytes())
    content[len(content) // 3] ^= 1
    workshop.file(run).write_bytes(bytes(content))
    with pytest.raises(StateIntegrityError, match=f"is damaged: its SHA-256 is .* where {run.checksum} was"):
        list(scan(spec))
    assert not [path for path in workshop.cache.rglob("*") if path.suffix == ".copy"]


def test_the_checksum_in_the_handle_is_that_of_the_file(workshop, written) -> None:
    _, run = written
    summed = subprocess.run(["sha256sum", workshop.file(run)], capture_output=True, text=True, check=True)
    assert summed.stdout.split()[0] == run.checksum
    assert run.bytes == workshop.file(run).stat().st_size


def layouts() -> Iterator[Any]:
    text, number = ("carrier", pa.string()), ("minutes", pa.int64())
    yield pa.schema([text, ("minutes", pa.int32())]), ["carrier"], "column 'minutes' is stored as bigint, now int"
    yield pa.schema([text]), ["carrier"], "column 'minutes' is stored as bigint, now absent"
    yield pa.schema([text, number, ("n", pa.date32())]), ["carrier"], "column 'n' is stored as absent, now date"
    yield (
        pa.schema([text, number]),
        ["minutes"],
        "the key is stored as (carrier string) and now defined as (minutes bigint)",
    )


@pytest.mark.parametrize(("schema", "key", "text"), list(layouts()))
def test_a_changed_definition_is_refused_with_the_column_named(schema, key, text, workshop, written) -> None:
    spec, run = written
    with pytest.raises(StateSchemaError) as raised:
        list(scan(replace(spec, layout=StateLayout.of_rows(schema, key))))
    assert text in str(raised.value)
    assert f"(in {run.path}, written by checkpoint 7). Nothing was changed. Put the definition back" in str(
        raised.value
    )


def test_columns_in_another_order_are_no_change(workshop, hashed) -> None:
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("w", pa.int64())])
    table = hashed(pa.table([["a"], [1], [2]], schema=schema), ["k"])
    declared = [("most", max_("v")), ("total", sum_("w"))]
    run = aggregate(table.to_batches(), workshop.spec(StateLayout.of_aggregates(schema, ["k"], declared))).write()
    turned = workshop.spec(StateLayout.of_aggregates(schema, ["k"], declared[::-1]), (run,))
    assert aggregate(table.to_batches(), turned).rows.to_pylist() == [{"k": "a", "total": 4, "most": 1}]
    assert pa.Table.from_batches(scan(turned)).to_pylist() == [{"k": "a", "total": 2, "most": 1}]


def test_another_function_under_the_same_name_is_refused(workshop, hashed) -> None:
    before = StateLayout.of_aggregates(SCHEMA, ["carrier"], [("a", sum_("minutes")), ("n", count())])
    run = aggregate(rows(hashed, "AA"), workshop.spec(before)).write()
    after = StateLayout.of_aggregates(SCHEMA, ["carrier"], [("a", max_("minutes")), ("n", count())])
    with pytest.raises(StateSchemaError, match=r"aggregate 'a' is stored as sum\(minutes\), now max\(minutes\)"):
        list(scan(workshop.spec(after, (run,))))


def test_another_max_parallelism_is_refused(written) -> None:
    spec, _ = written
    with pytest.raises(StateSchemaError, match="max_parallelism is stored as 128, now 64"):
        list(scan(replace(spec, max_parallelism=64, key_groups=KeyGroupRange(0, 63))))


def test_a_foreign_parquet_file_in_place_of_a_run_is_refused(workshop, written) -> None:
    import pyarrow.parquet as pq

    spec, run = written
    pq.write_table(pa.table({"a": [1]}), workshop.file(run))
    with pytest.raises(StateSchemaError, match="is not a run of keyed state"):
        list(scan(replace(spec, runs=(replace(run, details={}),))))


def test_two_rows_of_one_key_are_declined_with_the_key_named(workshop, hashed) -> None:
    with pytest.raises(CheckpointDeclinedError) as raised:
        upsert(rows(hashed, "AA", "UA", "AA"), workshop.spec(LAYOUT))
    assert "returned 2 rows for the key carrier='AA'" in str(raised.value)
    assert not workshop.storage.exists()


def test_rows_of_another_subtask_are_declined_before_they_are_lost(workshop, hashed) -> None:
    spec = workshop.spec(LAYOUT, key_groups=KeyGroupRange(0, 0))
    with pytest.raises(
        CheckpointDeclinedError, match="Rows of other key groups than 0 to 0 reached operator carrier_delays"
    ):
        upsert(rows(hashed, "AA", "UA", "DL"), spec)


class FullDisk:
    """A file on a disk that has no room left after `room` bytes."""

    def __init__(self, path: str, mode: str, room: int) -> None:
        self.file, self.room = open(path, mode), room  # noqa: SIM115 - closed by __exit__

    def write(self, content: Any) -> int:
        if len(content) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= len(content)
        return self.file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


@pytest.mark.parametrize("room", [0, 100, 1500])
def test_a_full_disk_says_so_and_leaves_nothing_behind(room, workshop, written, hashed, monkeypatch) -> None:
    spec, run = written
    monkeypatch.setattr("tidegate.state.local_files.open", lambda path, mode: FullDisk(path, mode, room), raising=False)
    with pytest.raises(StorageError) as raised:
        upsert(rows(hashed, *(f"carrier {number}" for number in range(2000))), spec).write()
    text = str(raised.value)
    assert f"The storage at {workshop.storage} is full: {spec.prefix}.parquet could not be written (" in text
    assert "bytes free). The unfinished file was removed and does not count" in text
    assert "Free some space, then retry." in text
    assert workshop.written() == [workshop.file(run)]
    assert not [path for path in workshop.cache.rglob("*") if path.name.startswith(".")]
    monkeypatch.undo()
    assert upsert(rows(hashed, "B6"), spec).write().rows == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_file_system_that_really_is_full(workshop, hashed) -> None:
    workshop.storage.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", workshop.storage], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(StorageError, match="is full: flight_delays/chk-7/"):
            upsert(rows(hashed, *(f"carrier {number}" for number in range(20000))), workshop.spec(LAYOUT)).write()
        assert workshop.written() == []
        assert upsert(rows(hashed, "AA"), workshop.spec(LAYOUT)).write().rows == 1
    finally:
        subprocess.run(["umount", workshop.storage], check=True)


def test_a_batch_without_rows_writes_nothing(workshop, hashed, written) -> None:
    spec, run = written
    empty = [batch.slice(0, 0) for batch in rows(hashed, "AA")]
    for batches in ([], empty):
        outcome = upsert(batches, spec)
        assert (outcome.write(), outcome.rows.num_rows, outcome.deleted.num_rows, outcome.rows_in) == (None, 0, 0, 0)
        assert lookup(batches, spec).schema == LAYOUT.rows
    assert workshop.written() == [workshop.file(run)]


def test_deleting_what_is_not_there_writes_nothing(workshop, hashed, written) -> None:
    spec, run = written
    gone = [b.append_column("_delete", pa.array([True])) for b in rows(hashed, "ZZ")]
    assert upsert(gone, spec).write() is None
    assert workshop.written() == [workshop.file(run)]


def test_a_failed_compaction_leaves_the_runs_as_they_are(workshop, hashed, written) -> None:
    spec, run = written
    again = upsert(rows(hashed, "AA", "B6"), spec).write()
    spec = workshop.next(spec, again)
    forget(workshop.cache)
    workshop.file(run).write_bytes(b"damaged")
    with pytest.raises(StateIntegrityError):
        compact(spec, spec.runs)
    assert workshop.written() == sorted([workshop.file(run), workshop.file(again)])
