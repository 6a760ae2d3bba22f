"""The local cache: what stays, what goes, and that neither changes what is read."""

import os
import pickle
import time

import pyarrow as pa
import pytest

from tidegate.state import cache
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import scan, upsert

LAYOUT = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"])


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


def test_what_travels_to_a_subtask_is_small(write) -> None:
    spec = write(2, write(1))
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - its own bytes
    assert len(pickle.dumps(spec)) < 4000
