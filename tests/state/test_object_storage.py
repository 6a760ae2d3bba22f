"""Checkpoint storage on a real S3 server: the same contract, state on top of it, and nothing that stays behind."""

from dataclasses import replace
from hashlib import sha256

import pyarrow as pa
import pytest
from object_stores import Bucket

from tidegate.protocol.facts.errors import ConfigurationError, StateIntegrityError, StorageError
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.state import opening
from tidegate.state.decoded_runs import DecodedRuns
from tidegate.state.layout import StateLayout
from tidegate.state.storage import ArrowCheckpointStorage
from tidegate.state.subtask import scan, upsert

LAYOUT = StateLayout.of_rows(pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"])


@pytest.fixture
def storage(bucket: Bucket) -> ArrowCheckpointStorage:
    return ArrowCheckpointStorage(bucket.url)


def handle(path: str, content: bytes) -> StateHandle:
    return StateHandle(path, HandleKind.RUN, 1, len(content), sha256(content).hexdigest(), 3)


def test_what_was_written_is_read_back_whole(storage) -> None:
    storage.write("p/chk-1/_metadata", b"one")
    storage.write("p/chk-1/_metadata", b"two")
    storage.write("p/chk-1/carriers/0.parquet", b"")
    assert storage.read("p/chk-1/_metadata") == b"two"
    assert b"".join(storage.stream("p/chk-1/_metadata", 2)) == b"two"
    assert storage.list("p") == ["p/chk-1/_metadata", "p/chk-1/carriers/0.parquet"]
    assert storage.list("q") == []
    with pytest.raises(
        StateIntegrityError, match=r"The file p/chk-1/no is missing from checkpoint storage s3://bucket-"
    ):
        storage.read("p/chk-1/no")


def test_nothing_of_an_ended_checkpoint_stays_and_nothing_else_goes(storage, bucket: Bucket) -> None:
    paths = ["p/chk-1/s/0.parquet", "p/chk-1/s/deep/1.parquet", "p/chk-1/_metadata", "p/shared/1/s/0", "p/chk-2/s/0"]
    for path in paths:
        storage.write(path, b"x")
    storage.delete(["p/chk-1/s/0.parquet"], {"p/chk-1"})
    assert {key for key in bucket.objects() if not key.endswith("/")} == set(paths[1:])
    storage.delete(["p/chk-1/s/deep/1.parquet"], {"p/chk-1"})
    assert not [key for key in bucket.objects() if key.startswith("p/chk-1/s")]
    storage.delete(["p/chk-1/_metadata", "p/shared/1/s/0", "p/chk-1/never-was"], {"p/chk-1", "p/shared/1", "p/chk-9"})
    assert bucket.objects().keys() - {"p/", "p/shared/"} == {"p/chk-2/s/0"}
    storage.delete(["p/chk-1/_metadata"], {"p/chk-1"})
    assert storage.read("p/chk-2/s/0") == b"x"


def test_a_directory_that_is_still_written_to_is_left_alone(storage, bucket: Bucket) -> None:
    storage.write("p/chk-2/s/0", b"x")
    storage.delete(["p/chk-2/s/0"])
    assert storage.list("p") == []
    storage.write("p/chk-2/s/1", b"y")
    assert storage.read("p/chk-2/s/1") == b"y"


def test_files_are_held_against_what_was_recorded(storage) -> None:
    good = handle("p/chk-3/s/0", b"content")
    storage.write(good.path, b"content")
    storage.verify([good] * 40, [good.path])
    storage.write(good.path, b"CONTENT")
    storage.verify([good], [])
    with pytest.raises(
        StateIntegrityError, match=r"p/chk-3/s/0 on .* written by checkpoint 3, is damaged: its SHA-256 is"
    ):
        storage.verify([good], [good.path])
    storage.write(good.path, b"short")
    with pytest.raises(StateIntegrityError, match="it has 5 bytes where 7 were written"):
        storage.verify([good], [])
    with pytest.raises(StateIntegrityError, match="p/chk-3/s/1 is missing"):
        storage.verify([good, replace(good, path="p/chk-3/s/1")][1:], [])


def test_state_is_read_through_a_copy_and_without_one(workshop, hashed, bucket: Bucket, monkeypatch) -> None:
    decoded = DecodedRuns(each=1 << 10, most=1 << 10)
    monkeypatch.setattr(opening, "_in_memory", decoded)
    spec = replace(workshop.spec(LAYOUT), storage_url=bucket.url)
    for key in (1, 2):
        table = hashed(pa.table({"k": [key], "v": [10 * key]}), ["k"])
        written = upsert(table.to_batches(), spec).write()
        spec = replace(workshop.next(spec, written), storage_url=bucket.url)
    assert {run.path for run in spec.runs} == bucket.objects().keys()
    for state in ("copied", "forgotten"):
        if state == "forgotten":
            for copy in workshop.copies.iterdir():
                copy.unlink()
        assert pa.Table.from_batches(scan(spec)).sort_by("k").to_pydict() == {"k": [1, 2], "v": [10, 20]}
    assert len(list(workshop.copies.glob("*.copy"))) == 2
    assert not decoded._runs  # what has a copy is not kept in memory, too
    storage = ArrowCheckpointStorage(bucket.url)
    storage.write(spec.runs[0].path, storage.read(spec.runs[0].path)[:-1])
    for copy in workshop.copies.iterdir():
        copy.unlink()
    with pytest.raises(StateIntegrityError, match=f"{spec.runs[0].path}, written by checkpoint 7, is damaged"):
        list(scan(spec))


def test_what_the_store_loses_is_noticed_by_the_task_that_wrote_it(workshop, hashed, bucket, monkeypatch) -> None:
    """A run is read back before it is reported: from then on others believe the copy."""
    spec = replace(workshop.spec(LAYOUT), storage_url=bucket.url)
    verify = ArrowCheckpointStorage.verify

    def lossy(self, files, in_full):
        self.write(files[0].path, b"\0" * files[0].bytes)
        verify(self, files, in_full)

    monkeypatch.setattr(ArrowCheckpointStorage, "verify", lossy)
    with pytest.raises(StateIntegrityError, match="its SHA-256 is"):
        upsert(hashed(pa.table({"k": [1], "v": [1]}), ["k"]).to_batches(), spec).write()
    assert not workshop.copies.exists() or not list(workshop.copies.iterdir())


def test_a_bucket_that_is_not_there_says_what_to_check(bucket: Bucket) -> None:
    storage = ArrowCheckpointStorage("s3://no-such-bucket-here/checkpoints")
    with pytest.raises(StorageError, match=r"could not write p/x: there is no such bucket\. .* Create the bucket"):
        storage.write("p/x", b"")


def test_a_file_is_copied_from_elsewhere_if_it_is_what_was_written(storage, bucket: Bucket, tmp_path) -> None:
    there = storage.elsewhere(f"{bucket.url}/archive")
    there.write("state/op/0.parquet", b"content")
    kept: list[None] = []
    good = handle("state/op/0.parquet", b"content")
    storage.copy(good, there, "p/chk-4/op/0-1-0.parquet", lambda: kept.append(None))
    assert (storage.read("p/chk-4/op/0-1-0.parquet"), kept) == (b"content", [None])
    local = storage.elsewhere(str(tmp_path / "saved"))
    local.copy(good, there, "state/op/0.parquet", lambda: None)
    assert local.list("") == ["state/op/0.parquet"]
    there.write(good.path, b"CONTENT")
    for target in (storage, local):
        with pytest.raises(
            StateIntegrityError, match=r"state/op/0.parquet on checkpoint storage s3://.*/archive.*SHA-256"
        ):
            target.copy(good, there, "q/chk-1/1.parquet", lambda: None)
        assert target.list("q") == []


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/x", "s3://bucket/x?secret_key=y"])
def test_where_a_savepoint_is_holds_no_secret(storage, url) -> None:
    with pytest.raises(ConfigurationError, match="contains credentials or options") as error:
        storage.elsewhere(url)
    assert "secret@" not in str(error.value)
    assert "=y" not in str(error.value)
