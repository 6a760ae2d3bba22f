"""Copies of runs on the local disk: what stays, what goes, and that neither changes what is read."""

import os
import pickle
import shutil
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from tidegate.protocol.facts.errors import ConfigurationError, StateIntegrityError, StorageError
from tidegate.state import mapped_copies, opening
from tidegate.state.decoded_runs import DecodedRuns
from tidegate.state.layout import StateLayout
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.state.subtask import scan, upsert

LAYOUT = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"])

pytestmark = pytest.mark.usefixtures("copied")


def refused(*_: object) -> None:
    raise StateIntegrityError("damaged by the disk")


@pytest.fixture
def write(workshop, hashed):
    """Write one more run, and return the spec that reads all of them."""

    def write_run(key: int, spec=None):
        spec = spec or workshop.spec(LAYOUT)
        table = hashed(pa.table({"k": [key], "v": [key]}), ["k"])
        return workshop.next(spec, upsert(table.to_batches(), spec).write())

    return write_run


def keys(spec) -> list[int]:
    return sorted(pa.Table.from_batches(scan(spec), LAYOUT.rows).column("k").to_pylist())


def test_a_run_just_written_needs_no_download(write, workshop) -> None:
    spec = write(1)
    workshop.file(spec.runs[0]).unlink()
    assert keys(spec) == [1]


def test_entries_nobody_used_for_days_are_deleted_when_one_is_added(write, workshop) -> None:
    spec = write(1)
    (old,) = workshop.copies.iterdir()
    os.utime(old, (time.time() - mapped_copies.CACHE_SECONDS - 60,) * 2)
    spec = write(2, spec)
    assert not old.exists()
    assert keys(spec) == [1, 2]


def test_using_an_entry_keeps_it(write, workshop) -> None:
    spec = write(1)
    (old,) = workshop.copies.iterdir()
    os.utime(old, (time.time() - mapped_copies.CACHE_SECONDS - 60,) * 2)
    assert keys(spec) == [1]
    write(2, spec)
    assert old.exists()


def test_a_run_larger_than_the_whole_cache_is_read_all_the_same(write, workshop, monkeypatch) -> None:
    monkeypatch.setattr(mapped_copies, "CACHE_BYTES", 1)
    spec = write(2, write(1))
    assert not list(workshop.copies.iterdir())
    assert keys(spec) == [1, 2]


def test_an_entry_of_another_boot_is_not_trusted(write, workshop, monkeypatch) -> None:
    spec = write(1)
    (entry,) = workshop.copies.iterdir()
    monkeypatch.setattr(mapped_copies, "_boot", lambda: "another")
    entry.write_bytes(b"zeros after a power cut")
    assert keys(spec) == [1]
    assert len(list(workshop.copies.iterdir())) == 2


def test_losing_the_cache_costs_a_download_and_nothing_else(write, workshop) -> None:
    spec = write(1)
    shutil.rmtree(workshop.cache)
    assert keys(spec) == [1]
    assert len(list(workshop.copies.glob("*.copy"))) == 1


@pytest.mark.parametrize(
    "damage", [lambda content: content[: len(content) // 2], lambda content: b"", lambda content: b"x" * 5000]
)
def test_a_damaged_entry_is_replaced(damage, write, workshop) -> None:
    spec = write(1)
    (entry,) = workshop.copies.glob("*.copy")
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
    monkeypatch.setattr(opening, "_in_memory", DecodedRuns(each=0, most=0))
    spec = write(2, write(1))
    assert keys(spec) == [1, 2]
    assert not workshop.cache.exists()
    workshop.file(spec.runs[0]).unlink()
    with pytest.raises(StateIntegrityError, match=f"{spec.runs[0].path} is missing"):
        keys(spec)


def test_what_was_written_without_a_copy_is_in_memory(write, workshop, monkeypatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(opening, "_in_memory", DecodedRuns(each=1 << 10, most=1 << 10))
    spec = write(2, write(1))
    for run in spec.runs:
        workshop.file(run).unlink()
    assert not workshop.cache.exists()
    assert keys(spec) == [1, 2]


def test_a_run_that_has_a_copy_is_read_from_it_and_not_kept_in_memory(write, monkeypatch) -> None:
    decoded = DecodedRuns(each=1 << 10, most=1 << 10)
    spec = write(1)
    monkeypatch.setattr(opening, "_in_memory", decoded)
    assert keys(spec) == [1]
    assert not decoded._runs


def test_what_could_not_be_verified_is_not_in_memory(write, monkeypatch) -> None:
    recent = DecodedRuns(each=1 << 10, most=1 << 10)
    monkeypatch.setattr(opening, "_in_memory", recent)
    monkeypatch.setattr(ArrowCheckpointStorage, "verify", refused)
    with pytest.raises(StateIntegrityError, match="damaged by the disk"):
        write(1)
    assert not recent._runs


def test_the_smallest_runs_stay_in_memory_as_long_as_there_is_room(write, workshop, monkeypatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(opening, "_in_memory", DecodedRuns(each=0, most=0))
    spec = write(3, write(2, write(1)))
    size = sum(part.rows.nbytes for part in opening.open_run(spec, spec.runs[0]))
    monkeypatch.setattr(opening, "_in_memory", DecodedRuns(each=size, most=2 * size))
    assert keys(spec) == [1, 2, 3]
    for run in spec.runs:
        workshop.file(run).unlink()
    assert keys(replace(spec, runs=spec.runs[1:])) == [2, 3]
    with pytest.raises(StateIntegrityError, match=f"{spec.runs[0].path} is missing"):
        keys(spec)


def test_a_run_that_is_small_in_memory_only_is_copied_when_it_is_read(write, workshop, monkeypatch) -> None:
    monkeypatch.setattr(mapped_copies, "IN_PLACE_MEMORY", 1 << 20)
    spec = write(1)
    assert not workshop.cache.exists()
    assert keys(spec) == [1]
    assert len(list(workshop.copies.glob("*.copy"))) == 1


def test_what_travels_to_a_subtask_is_small(write) -> None:
    spec = write(2, write(1))
    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - its own bytes
    assert len(pickle.dumps(spec)) < 4000


def test_a_copy_that_is_not_what_was_written_is_thrown_away_and_fetched_again(write, workshop) -> None:
    spec = write(1)
    (entry,) = workshop.copies.glob("*.copy")
    content = entry.read_bytes()
    other = write(2).runs[0]  # a whole Arrow file of as many rows, with another value
    forged = next(path for path in workshop.copies.glob("*.copy") if path != entry)
    assert other.rows == spec.runs[0].rows
    for damage in (forged.read_bytes()[:-32] + content[-32:], content[:-1] + b"?"):
        entry.write_bytes(damage)
        assert keys(spec) == [1]
        assert entry.read_bytes() == content


def test_a_copy_is_read_for_its_checksum_once_a_process_and_file(write, workshop, monkeypatch) -> None:
    read: list[int] = []
    require = mapped_copies._require_checksum
    monkeypatch.setattr(mapped_copies, "_require_checksum", lambda file, size: (read.append(size), require(file, size)))
    spec = write(1)
    assert keys(spec) == keys(spec) == [1]
    assert not read  # this process wrote it
    mapped_copies._believed.clear()
    assert keys(spec) == keys(spec) == [1]
    assert len(read) == 1
    (entry,) = workshop.copies.iterdir()
    entry.write_bytes(entry.read_bytes())
    assert keys(spec) == [1]
    assert len(read) == 2  # somebody wrote to it


def test_marking_a_copy_as_used_does_not_make_it_another_file(write, workshop) -> None:
    spec = write(1)
    (entry,) = workshop.copies.iterdir()
    os.utime(entry, (time.time() - 2 * mapped_copies._TOUCH_SECONDS, entry.stat().st_mtime))
    believed = set(mapped_copies._believed)
    assert keys(spec) == [1]
    assert entry.stat().st_atime > time.time() - 60
    assert mapped_copies._identity(entry.stat()) in believed | set(mapped_copies._believed)
    assert set(mapped_copies._believed) >= believed


def test_only_what_the_cache_made_is_deleted(write, workshop, tmp_path) -> None:
    spec = write(1)
    (entry,) = workshop.copies.iterdir()
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    others = [workshop.copies / "notes.txt", workshop.copies / ".hidden", treasure / entry.name, treasure / "gold"]
    for path in others:
        path.write_text("mine")
        os.utime(path, (0, 0))
    links = {
        workshop.copies / f"{'a' * 64}-boot.copy": treasure / "gold",
        workshop.copies / f"{'b' * 64}-boot.copy": treasure,
        workshop.copies / f".{'c' * 32}.tmp": treasure / entry.name,
    }
    for link, target in links.items():
        link.symlink_to(target)
        os.utime(link, (0, 0), follow_symlinks=False)
    old = workshop.copies / f"{'d' * 64}-boot.copy"
    old.write_text("of a boot long ago")
    os.utime(old, (0, 0))
    write(2, spec)
    assert not old.exists()
    assert [path.read_text() for path in others] == ["mine"] * 4
    assert all(link.is_symlink() for link in links)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to a second account")
def test_a_file_of_another_account_is_neither_believed_nor_deleted(write, workshop) -> None:
    spec = write(1)
    (entry,) = workshop.copies.iterdir()
    old = workshop.copies / f"{'d' * 64}-boot.copy"
    old.write_text("")
    for path in (entry, old):
        os.utime(path, (0, 0))
        os.chown(path, 65534, 65534)
    assert keys(spec) == [1]
    assert entry.stat().st_uid == 0  # fetched again
    assert old.exists()


def test_a_directory_that_others_can_write_to_is_refused_by_reading_and_by_writing(write, workshop) -> None:
    spec = write(1)
    workshop.copies.chmod(0o777)
    for use in (lambda: keys(spec), lambda: write(2)):
        with pytest.raises(
            ConfigurationError, match=r"The cache directory .*runs is not private: others can write to it"
        ):
            use()
