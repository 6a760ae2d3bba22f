"""What a `ParquetSink` stages, shows and deletes, and what it says when it cannot. No Spark."""

import errno
import fcntl
import hashlib
import os
import re
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commits import Attempt, commit

from tidegate.ports import SinkInput, StageContext
from tidegate.protocol.errors import (
    PipelineDefinitionError,
    SinkError,
    StateIntegrityError,
    StorageError,
    SupersededAttemptError,
)
from tidegate.protocol.records import HandleKind, StateHandle
from tidegate.sinks.parquet import ParquetSink
from tidegate.state.storage import ArrowCheckpointStorage


def rows(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


def stage(sink: ParquetSink, checkpoint_id: int, *values: int, subtask: int = 0, attempt: int = 1) -> StateHandle:
    context = StageContext(checkpoint_id, subtask, attempt, f"u{values[0] if values else 0}")
    (handle,) = sink.writer().stage(rows(*values), context)
    return handle


def shown(directory: str | Path) -> list[int]:
    """What a reader of a directory sees who skips hidden names, as Spark, Hive and pyarrow do."""
    files = [
        Path(parent, name)
        for parent, directories, names in os.walk(directory)
        if not directories.sort() and not [directories.remove(d) for d in list(directories) if d[0] in "._"]
        for name in names
        if name[0] not in "._"
    ]
    return sorted(value for file in files for value in pq.read_table(file, partitioning=None)["v"].to_pylist())


def visible(sink: ParquetSink) -> list[int]:
    return shown(sink.root if sink.mode == "append" else os.path.join(sink.root, "current"))


@pytest.fixture
def append() -> ParquetSink:
    return ParquetSink("tables/events")


@pytest.fixture
def latest() -> ParquetSink:
    return ParquetSink("tables/state", mode="latest")


def test_what_the_disk_loses_is_noticed_by_the_task_that_staged_it(append, monkeypatch):
    verify = ArrowCheckpointStorage.verify

    def lossy(self, files, in_full):
        self.write(files[0].path, b"\0" * files[0].bytes)
        verify(self, files, in_full)

    monkeypatch.setattr(ArrowCheckpointStorage, "verify", lossy)
    with pytest.raises(StateIntegrityError, match="its SHA-256 is"):
        stage(append, 1, 5)


def test_staged_files_are_looked_at_in_full_length_and_those_chosen_in_full(append):
    handle = stage(append, 1, 5)
    append.verify([handle], [handle.path])
    staged = Path(append.root, handle.path)
    staged.write_bytes(b"X" + staged.read_bytes()[1:])
    append.verify([handle], [])
    with pytest.raises(StateIntegrityError, match=f"{handle.path} on .*{append.root}, written by checkpoint 1"):
        append.verify([handle], [handle.path])
    staged.unlink()
    with pytest.raises(StateIntegrityError, match=handle.path):
        append.verify([handle], [])
    with pytest.raises(SinkError, match="is not a path in a sink's staging"):
        append.verify([replace(handle, path="checkpoint=1/x")], [])


def test_staged_rows_are_on_disk_named_and_invisible(append: ParquetSink) -> None:
    handle = stage(append, 5, 1, 2, subtask=3, attempt=2)
    file = Path(append.root, handle.path)
    assert handle.path == "_staging/chk-5/3-2-u1.parquet"
    assert (handle.kind, handle.rows, handle.created_by) == (HandleKind.STAGED, 2, 5)
    assert handle.bytes == file.stat().st_size
    assert handle.checksum == hashlib.sha256(file.read_bytes()).hexdigest()
    assert visible(append) == []


def test_append_shows_each_checkpoint_once_whatever_is_repeated(append: ParquetSink) -> None:
    one = [stage(append, 1, 1, 2), stage(append, 1, 3, subtask=1)]
    two = [stage(append, 2, 4)]
    commit(append, 1, one)
    commit(append, 2, two)
    commit(append, 1, one)
    assert visible(append) == [1, 2, 3, 4]
    assert sorted(p.name for p in Path(append.root).glob("checkpoint=*")) == ["checkpoint=1", "checkpoint=2"]
    assert append.table() == append.root


def test_only_acknowledged_files_become_visible(append: ParquetSink) -> None:
    zombie = stage(append, 1, 100, attempt=1)
    good = stage(append, 1, 1, attempt=2)
    commit(append, 1, [good])
    late = stage(append, 1, 200, attempt=1)
    commit(append, 1, [good])
    assert visible(append) == [1]
    assert append.staged_paths(1) == sorted([zombie.path, late.path])
    append.discard([*append.staged_paths(1), good.path])
    assert visible(append) == [1]
    assert append.staged_paths(1) == []
    assert not Path(append.root, "_staging/chk-1").exists()


def test_no_rows_make_no_directory(append: ParquetSink) -> None:
    assert append.writer().stage(rows(), StageContext(1, 0, 1, "u")) == []
    commit(append, 1, [])
    assert not Path(append.root).exists()
    assert append.staged_paths(1) == []


def test_latest_shows_the_newest_whole_and_carries_unchanged_subtasks(latest: ParquetSink) -> None:
    a1, b1 = stage(latest, 1, 1), stage(latest, 1, 10, subtask=1)
    commit(latest, 1, [a1, b1])
    assert visible(latest) == [1, 10]
    assert latest.input is SinkInput.CURRENT
    a2 = stage(latest, 2, 2)
    commit(latest, 2, [a2, b1])
    assert visible(latest) == [2, 10]
    latest.discard([a1.path])
    assert visible(latest) == [2, 10]
    commit(latest, 3, [a2, b1])
    latest.discard([a2.path, b1.path])
    assert visible(latest) == [2, 10]


def test_a_late_repeat_does_not_take_latest_back(latest: ParquetSink) -> None:
    handles = {id_: [stage(latest, id_, id_)] for id_ in (5, 6, 7)}
    commit(latest, 5, handles[5])
    commit(latest, 7, handles[7])
    commit(latest, 5, handles[5])
    commit(latest, 6, handles[6])
    assert visible(latest) == [7]
    latest.discard([handle.path for id_ in (5, 6) for handle in handles[id_]])
    commit(latest, 5, handles[5])
    assert visible(latest) == [7]


def test_a_reader_that_opened_the_table_finishes_during_the_next_commit(latest: ParquetSink) -> None:
    commit(latest, 1, [stage(latest, 1, 1)])
    opened = latest.table()
    two = [stage(latest, 2, 2)]
    for _ in range(2):
        commit(latest, 2, two)
        assert shown(opened) == [1]
        assert visible(latest) == [2]
    commit(latest, 3, [stage(latest, 3, 3)])
    assert not Path(opened).exists()


def test_latest_without_rows_is_an_empty_table_with_its_columns(latest: ParquetSink) -> None:
    commit(latest, 1, [stage(latest, 1, 1)])
    commit(latest, 2, [stage(latest, 2)])
    table = pq.read_table(latest.table())
    assert table.num_rows == 0
    assert table.column_names == ["v"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV])
def test_latest_copies_where_hard_links_are_impossible(
    code: int, latest: ParquetSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    handle = stage(latest, 1, 1)
    commit(latest, 1, [handle])
    latest.discard([handle.path])
    assert visible(latest) == [1]


@pytest.mark.parametrize("mode", ["append", "latest"])
@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_lost_staged_file_shows_nothing_and_is_named(mode: Any, damage: str) -> None:
    sink = ParquetSink("t", mode)
    good, bad = stage(sink, 4, 1), stage(sink, 4, 2, subtask=1)
    file = Path(sink.root, bad.path)
    content = file.read_bytes()
    file.unlink() if damage == "missing" else file.write_bytes(content[:10])
    expected = "is missing" if damage == "missing" else f"has 10 bytes instead of {bad.bytes}"
    with pytest.raises(
        SinkError, match=rf"_staging/chk-4/1-1-u2.parquet .1 rows, SHA-256 .* {expected}.*Nothing of the"
    ):
        commit(sink, 4, [good, bad])
    assert visible(sink) == []
    # As the message says: restore the file where it was and repeat.
    file.write_bytes(content)
    commit(sink, 4, [good, bad])
    assert visible(sink) == [1, 2]


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_checkpoint_of_another_pipeline_in_the_same_place_is_refused(mode: Any) -> None:
    sink = ParquetSink("t", mode)
    commit(sink, 1, [stage(sink, 1, 1)])
    other = stage(sink, 1, 2)
    with pytest.raises(
        SinkError, match=r"does not hold the files that checkpoint 1 wrote: another pipeline writes there, or"
    ):
        commit(sink, 1, [other])
    assert visible(sink) == [1]
    assert sink.staged_paths(1)[-1] == other.path


def test_an_older_history_that_latest_shows_is_not_taken_for_a_late_repeat(latest: ParquetSink) -> None:
    commit(latest, 40, [stage(latest, 40, 40)])
    anew = [stage(latest, 1, 1)]
    future = os.lstat(os.path.join(latest.root, "current")).st_mtime_ns + 1
    os.utime(os.path.join(latest.root, anew[0].path), ns=(future, future))
    with pytest.raises(SinkError, match=r"shows checkpoint 40, which is older than .*restarted with an empty database"):
        commit(latest, 1, anew)
    assert visible(latest) == [40]


def test_a_directory_in_the_place_of_current_is_left_alone(latest: ParquetSink) -> None:
    handle = stage(latest, 1, 1)
    precious = Path(latest.root, "current", "precious")
    precious.mkdir(parents=True)
    with pytest.raises(SinkError, match=r"current is not a link that Tidegate made, so it was left alone"):
        commit(latest, 1, [handle])
    assert precious.exists()


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "checkpoint=1/0-1-u.parquet", "_staging/chk-1/../../x", "_staging/chk-1/..", "current"],
)
def test_only_staging_can_be_discarded_or_committed(path: str, append: ParquetSink) -> None:
    handle = stage(append, 1, 1)
    commit(append, 1, [handle])
    with pytest.raises(SinkError, match=r"is not a path in a sink's staging"):
        append.discard([path])
    with pytest.raises(SinkError, match=r"is not a path in a sink's staging"):
        commit(append, 2, [replace(handle, path=path)])
    assert visible(append) == [1]


@pytest.mark.parametrize("mode", ["append", "latest"])
@pytest.mark.parametrize("turn", range(5))
def test_committers_at_once_agree(turn: int, mode: Any) -> None:
    """Each overtakes whoever is there, which then looks again. Older checkpoints come first, as in a delivery."""
    sink = ParquetSink(f"t{turn}", mode)
    staged = {id_: [stage(sink, id_, id_ * 10 + n, subtask=n) for n in range(4)] for id_ in (1, 2, 3)}

    def deliver(_: int) -> None:
        for id_ in (1, 2, 3):
            while True:
                with suppress(SupersededAttemptError):
                    commit(sink, id_, staged[id_])
                    break

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(deliver, range(4)))
    wanted = (1, 2, 3) if mode == "append" else (3,)
    assert visible(sink) == [id_ * 10 + n for id_ in wanted for n in range(4)]
    commit(sink, 4, [stage(sink, 4, 40)])
    assert os.listdir(os.path.join(sink.root, "_committing")) == []


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_lock_that_somebody_holds_on_anything_changes_nothing(mode: Any) -> None:
    """Whoever may read a file may lock it; nobody here asks."""
    sink = ParquetSink("t", mode)
    commit(sink, 1, [stage(sink, 1, 1)])
    handle = stage(sink, 2, 2)
    Path(sink.root, "_lock").touch()
    with ExitStack() as held:
        inodes = {path.stat().st_ino: path for path in [Path(sink.root), *Path(sink.root).rglob("*")]}
        for path in inodes.values():
            descriptor = os.open(path, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        commit(sink, 2, [handle])
    assert visible(sink) == ([1, 2] if mode == "append" else [2])
    assert not Path(sink.root, "_lock").exists()


def test_what_an_older_version_left_in_the_middle_of_a_commit_is_gone_on_with_and_tidied(append: ParquetSink) -> None:
    """It moved staged files to a directory of the checkpoint, under a lock."""
    moved, staged = stage(append, 1, 1), stage(append, 1, 2, subtask=1)
    halfway = Path(append.root, "_committing", "chk-1")
    halfway.mkdir(parents=True)
    Path(append.root, moved.path).rename(halfway / Path(moved.path).name)
    Path(append.root, "_lock").touch()
    commit(append, 1, [moved, staged])
    assert visible(append) == [1, 2]
    assert sorted(os.listdir(append.root)) == ["_committing", "_staging", "checkpoint=1"]
    assert os.listdir(Path(append.root, "_committing")) == []


def test_versions_and_links_that_an_older_version_left_half_done_are_tidied(latest: ParquetSink) -> None:
    commit(latest, 1, [stage(latest, 1, 1)])
    Path(latest.root, "_versions", "chk-2.0123456789abcdef.tmp").mkdir()
    Path(latest.root, "_versions", "somebody's own").mkdir()
    Path(latest.root, "_next").symlink_to("_versions/chk-2")
    commit(latest, 2, [stage(latest, 2, 2)])
    assert visible(latest) == [2]
    assert sorted(os.listdir(Path(latest.root, "_versions"))) == ["chk-1", "chk-2", "somebody's own"]
    assert sorted(os.listdir(latest.root)) == ["_committing", "_staging", "_versions", "current"]


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_an_attempt_that_was_overtaken_says_so_and_nothing_else(mode: Any) -> None:
    sink = ParquetSink("t", mode)
    staged = [stage(sink, 1, 1)]
    late = Attempt()
    commit(sink, 1, staged)
    with pytest.raises(SupersededAttemptError, match=rf"attempt {late.number} was overtaken"):
        sink.commit(1, staged, late)
    assert os.listdir(Path(sink.root, "_committing")) == []

    class Overtaken(Attempt):
        """By somebody who begins right after it was confirmed."""

        def confirm(self) -> None:
            super().confirm()
            commit(sink, 1, staged)

    two = [stage(sink, 2, 2)]
    with pytest.raises(SupersededAttemptError):
        sink.commit(2, two, Overtaken())
    assert visible(sink) == [1]
    commit(sink, 2, two)
    assert visible(sink) == ([1, 2] if mode == "append" else [2])


def test_a_number_that_is_there_already_is_no_older_attempt_and_the_next_one_goes_on(append: ParquetSink) -> None:
    handle, attempt = stage(append, 1, 1), Attempt()
    Path(append.root, "_committing", str(attempt.number), "gathered").mkdir(parents=True)
    with pytest.raises(SinkError, match=r"already exists, although attempt \d+ has just begun: another pipeline"):
        append.commit(1, [handle], attempt)
    assert visible(append) == []
    commit(append, 1, [handle])
    assert visible(append) == [1]
    assert os.listdir(Path(append.root, "_committing")) == []


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """The kernel's own refusal to write on, as it comes when a disk or quota is full. For this process,
    its log included."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_the_system_refuses_leaves_nothing_visible(append: ParquetSink) -> None:
    table = pa.table({"v": list(range(100_000))})
    with pytest.raises(StorageError) as raised, file_size_limit(4096):
        append.writer().stage(table, StageContext(1, 0, 1, "u"))
    assert re.search("Rows of checkpoint 1 could not be staged below .*none of them became visible", str(raised.value))
    assert append.staged_paths(1) == []


def test_a_full_disk_while_staging_says_so(append: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    stage(append, 1, 1)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError) as raised:
        append.writer().stage(rows(1), StageContext(2, 0, 1, "u"))
    for part in ("none of them became visible", "is full", "bytes free", "Free some space, then retry"):
        assert part in str(raised.value)
    assert append.staged_paths(2) == []


def test_a_failure_to_commit_says_what_is_safe(append: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = stage(append, 3, 1)

    def denied(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", denied)
        with pytest.raises(
            SinkError, match=r"Checkpoint 3 could not be committed to .*Permission denied.*all of it or none"
        ):
            commit(append, 3, [handle])
    commit(append, 3, [handle])
    assert visible(append) == [1]


@pytest.mark.parametrize("url", ["s3://bucket/t", "gs://bucket/t", "hdfs://host/t", "abfss://x@y/t"])
def test_storage_without_atomic_renames_is_refused_with_the_reason(url: str) -> None:
    with pytest.raises(PipelineDefinitionError, match=r"cannot write to \w+://.*atomic rename.*mounted directory"):
        ParquetSink(url)


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(PipelineDefinitionError, match='the mode is \'upsert\', but must be "append" or "latest"'):
        ParquetSink("t", mode="upsert")


def test_describe_names_the_place(append: ParquetSink, home: Path) -> None:
    assert append.describe() == {"type": "ParquetSink", "path": str(home / "tables/events"), "mode": "append"}
    assert ParquetSink(f"file://{home}/x/").root == str(home / "x")


@pytest.mark.parametrize("kind", [pa.duration("us"), pa.null(), pa.month_day_nano_interval()])
def test_types_that_parquet_lacks_are_refused_by_name(kind: pa.DataType, append: ParquetSink) -> None:
    with pytest.raises(SinkError, match=r"column 'odd' has type .*Nothing became visible"):
        append.writer().stage(pa.table({"odd": pa.array([None], kind)}), StageContext(1, 0, 1, "u"))
    assert not Path(append.root).exists()
