"""Checkpoint storage: whole files, durable, below one root, over any file system pyarrow knows."""

import os
from hashlib import sha256
from pathlib import Path

import pytest
from pyarrow import fs

from tidegate.protocol.facts.errors import ConfigurationError, StateIntegrityError, StorageError
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.state.storage import ArrowCheckpointStorage


@pytest.fixture(params=["path", "url", "elsewhere"])
def storage(request, tmp_path: Path) -> ArrowCheckpointStorage:
    """By path, by file:// URL, and through the code that serves remote file systems."""
    root = tmp_path / "check points"
    root.mkdir()
    if request.param == "url":
        return ArrowCheckpointStorage(root.as_uri())
    opened = ArrowCheckpointStorage(str(root))
    if request.param == "elsewhere":
        opened.is_local = False
    return opened


def test_what_was_written_is_read_back_whole(storage) -> None:
    storage.write("p/chk-1/_metadata", b"one")
    storage.write("p/chk-1/_metadata", b"two")
    storage.write("p/chk-1/carriers/0.parquet", b"")
    assert storage.read("p/chk-1/_metadata") == b"two"
    assert storage.list("p") == ["p/chk-1/_metadata", "p/chk-1/carriers/0.parquet"]
    assert storage.list("p/chk-1/carriers") == ["p/chk-1/carriers/0.parquet"]
    assert storage.list("q") == []
    assert b"".join(storage.stream("p/chk-1/_metadata", 2)) == b"two"


def test_deleting_removes_files_and_the_directories_they_leave_empty(storage) -> None:
    for path in ("p/chk-1/a/0", "p/chk-1/_metadata", "p/chk-2/a/0"):
        storage.write(path, b"x")
    storage.delete(["p/chk-1/a/0", "p/chk-9/a/never-existed"])
    assert storage.list("p") == ["p/chk-1/_metadata", "p/chk-2/a/0"]
    storage.delete(["p/chk-1/_metadata", "p/chk-2/a/0"])
    storage.delete(["p/chk-1/_metadata"])
    assert storage.list("p") == []
    assert not fs.LocalFileSystem().get_file_info(f"{storage._root}/p").type
    assert fs.LocalFileSystem().get_file_info(storage._root).type


@pytest.mark.parametrize("path", ["../outside", "p/../../outside", "/etc/passwd", "a\\..\\b", "p/\0"])
def test_paths_never_leave_the_root(path, storage) -> None:
    for attempt in (storage.read, storage.list, lambda p: storage.write(p, b"x"), lambda p: storage.delete([p])):
        with pytest.raises(StorageError, match="is not a path below checkpoint storage"):
            attempt(path)


def test_the_root_itself_is_only_listed(storage) -> None:
    assert storage.list("") == []
    storage.write("p/chk-1/_metadata", b"x")
    assert storage.list("") == ["p/chk-1/_metadata"]
    for attempt in (storage.read, lambda p: storage.write(p, b"x"), lambda p: storage.delete([p])):
        with pytest.raises(StorageError, match="is not a path below checkpoint storage"):
            attempt("")


def test_every_file_is_looked_at_and_those_of_the_sample_are_read(storage) -> None:
    content = {f"p/chk-1/s/{number}": bytes([number]) * 100 for number in range(5)}
    for path, written in content.items():
        storage.write(path, written)
    files = [
        StateHandle(path, HandleKind.RUN, 1, len(written), sha256(written).hexdigest(), 1)
        for path, written in content.items()
    ]
    storage.verify(files, content)
    storage.verify([], content)
    storage.write("p/chk-1/s/3", b"x" * 100)
    storage.write("p/chk-1/s/4", b"y" * 100)
    storage.verify(files, ["p/chk-1/s/0", "p/chk-1/s/1"])
    with pytest.raises(StateIntegrityError, match=r"The file p/chk-1/s/3 .* its SHA-256 is"):
        storage.verify(files, content)
    storage.delete(["p/chk-1/s/2"])
    with pytest.raises(StateIntegrityError, match=r"p/chk-1/s/2 is missing"):
        storage.verify(files, [])


def test_a_missing_file_is_an_integrity_error_that_names_it(storage) -> None:
    with pytest.raises(StateIntegrityError, match=r"The file p/chk-1/_metadata is missing from checkpoint storage"):
        storage.read("p/chk-1/_metadata")


def test_a_writer_that_fails_leaves_the_old_content_and_no_other_file(storage) -> None:
    storage.write("p/x", b"old")

    def write_half() -> None:
        with storage.open_output("p/x") as file:
            file.write(b"new")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    assert storage.read("p/x") == b"old"
    assert storage.list("p") == ["p/x"]


def test_local_files_and_new_directories_are_synced_before_a_write_returns(tmp_path, monkeypatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    ArrowCheckpointStorage(str(tmp_path)).write("p/chk-1/_metadata", b"content")
    assert synced[:2] == [str(tmp_path), f"{tmp_path}/p"]
    assert synced[2].startswith(f"{tmp_path}/p/chk-1/._metadata.")
    assert synced[3:] == [f"{tmp_path}/p/chk-1"]


def test_a_place_that_cannot_be_written_says_what_to_check(tmp_path) -> None:
    (tmp_path / "p").write_text("a file")
    with pytest.raises(StorageError, match=r"could not write p/x: .*Check permissions, credentials and the connection"):
        ArrowCheckpointStorage(str(tmp_path)).write("p/x", b"")


def test_an_unknown_scheme_is_a_configuration_error_that_shows_no_secret() -> None:
    with pytest.raises(ConfigurationError) as raised:
        ArrowCheckpointStorage("ftp://user:secret@host/path")
    assert "ftp://host/path" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_what_links_lead_to_is_not_listed_and_so_never_deleted(tmp_path) -> None:
    """A link to what lies beside it would be a file that nothing refers to, and one to a directory above has no end."""
    storage = ArrowCheckpointStorage(str(tmp_path / "storage"))
    storage.write("p/chk-1/a", b"1")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "b").write_text("2")
    for name, target in (("chk-2", "chk-1"), ("up", ".."), ("here", "."), ("out", tmp_path / "precious")):
        (tmp_path / "storage" / "p" / name).symlink_to(target)
    (tmp_path / "storage" / "p" / "chk-1" / "c").symlink_to(tmp_path / "precious" / "b")
    assert storage.list("") == storage.list("p") == ["p/chk-1/a"]
    assert storage.list("nothing") == []
    (tmp_path / "moved").symlink_to(tmp_path / "storage")
    assert ArrowCheckpointStorage(str(tmp_path / "moved")).list("p") == ["p/chk-1/a"]
