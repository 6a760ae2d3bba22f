"""The local cache: what stays, what goes, and that neither changes what is read."""

import os
import pickle
import shutil
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from tidegate.protocol.errors import StateIntegrityError, StorageError
from tidegate.state import cache, opening
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import scan, upsert

LAYOUT = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"])

pytestmark = pytest.mark.usefixtures("copied")


@pytest.fixture
def write(workshop, hashed):
    """Write one more run, and return the spec that reads all of them."""

    def write_run(key: int, spec=None):
        spec = spec or workshop.spec(LAYOUT)
        table = hashed(pa.table({"k": [key], "v": [key]}), ["k"])
        return workshop.next(spec, upsert(table.to_batches(), spec).handle)

    return write_run


def keys(spec) -> list[int]:
    return sorted(pa.Table.from_batches(scan(spec), LAYOUT.rows).column("k").to_pylist())


def test_a_run_just_written_needs_no_download(write, workshop) -> None:
    spec = write(1)
    workshop.file(spec.runs[0]).unlink()
    assert keys(spec) == [1]


def test_entries_nobody_used_for_days_are_deleted_when_one_is_added(write, workshop) -> None:
    spec = write(1)
    (old,) = workshop.cache.iterdir()
    os.utime(old, (time.time() - cache.CACHE_SECONDS - 60,) * 2)
    spec = write(2, spec)
    assert not old.exists()
    assert keys(spec) == [1, 2]


def test_using_an_entry_keeps_it(write, workshop) -> None:
    spec = write(1)
    (old,) = workshop.cache.iterdir()
    os.utime(old, (time.time() - cache.CACHE_SECONDS - 60,) * 2)
    assert keys(spec) == [1]
    write(2, spec)
    assert old.exists()


def test_a_run_larger_than_the_whole_cache_is_read_all_the_same(write, workshop, monkeypatch) -> None:
    monkeypatch.setattr(cache, "CACHE_BYTES", 1)
    spec = write(2, write(1))
    assert not list(workshop.cache.iterdir())
    assert keys(spec) == [1, 2]


def test_an_entry_of_another_boot_is_not_trusted(write, workshop, monkeypatch) -> None:
    spec = write(1)
    (entry,) = workshop.cache.iterdir()
    monkeypatch.setattr(cache, "_boot", lambda: "another")
    entry.write_bytes(b"zeros after a power cut")
    assert keys(spec) == [1]
    assert len(list(workshop.cache.iterdir())) == 2


def test_losing_the_cache_costs_a_download_and_nothing_else(write, workshop) -> None:
    spec = write(1)
    shutil.rmtree(workshop.cache)
    assert keys(spec) == [1]
    assert len(list(workshop.cache.glob("*.arrow"))) == 1


@pytest.mark.parametrize(
    "damage", [lambda content: content[: len(content) // 2], lambda content: b"", lambda content: b"x" * 5000]
)
def test_a_damaged_entry_is_replaced(damage, write, workshop) -> None:
    spec = write(1)
    (entry,) = workshop.cache.glob("*.arrow")
    content = entry.read_bytes()
    entry.unlink()
    entry.write_bytes(damage(content))
    assert keys(spec) == [1]
    assert entry.read_bytes() == content


def test_a_cache_that_cannot_be_written_stops_reading_but_not_writing(write, workshop) -> None:
    spec = write(1)
    shutil.rmtree(workshop.cache)
    workshop.cache.write_text("a file where the directory should be")
    assert write(2).runs[0].rows == 1
    with pytest.raises(StorageError, match=r"The local state cache .* cannot take a copy of flight_delays/chk-7/"):
        keys(spec)


def test_a_small_run_in_local_storage_is_read_where_it_lies(write, workshop, monkeypatch) -> None:
    monkeypatch.undo()
    spec = write(2, write(1))
    assert keys(spec) == [1, 2]
    assert not workshop.cache.exists()


def test_the_smallest_runs_stay_in_memory_as_long_as_there_is_room(write, workshop, monkeypatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(opening, "_RECENT_RUNS", 2)
    spec = write(3, write(2, write(1)))
    assert keys(spec) == [1, 2, 3]
    for run in spec.runs:
        workshop.file(run).unlink()
    assert keys(replace(spec, runs=spec.runs[1:])) == [2, 3]
    with pytest.raises(StateIntegrityError, match=f"{spec.runs[0].path} is missing"):
        keys(spec)


def test_a_run_that_is_small_in_memory_only_is_copied_when_it_is_read(write, workshop, monkeypatch) -> None:
    monkeypatch.setattr(cache, "IN_PLACE_MEMORY", 1 << 20)
    spec = write(1)
    assert not workshop.cache.exists()
    assert keys(spec) == [1]
    assert len(list(workshop.cache.glob("*.arrow"))) == 1


def test_what_travels_to_a_subtask_is_small(write) -> None:
    spec = write(2, write(1))
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - its own bytes
    assert len(pickle.dumps(spec)) < 4000
