"""What a `ParquetSink` stages, shows and deletes. No Spark."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from commits import commit
from parquet_sinks import rows, stage, visible

from tidegate.ports import SinkInput, StageContext, StagingSink
from tidegate.protocol.facts.errors import (
    SinkError,
    StateIntegrityError,
)
from tidegate.sinks.parquet import ParquetSink
from tidegate.state.storage import ArrowCheckpointStorage


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


def test_checkpoints_of_which_something_is_staged_are_listed(append):
    assert append.staged_checkpoints() == []
    stage(append, 12, 5)
    stage(append, 3, 6)
    Path(append.root, "_staging", "elsewhere").mkdir()
    commit(append, 3, [stage(append, 3, 7, attempt=2)])
    assert isinstance(append, StagingSink)
    assert append.staged_checkpoints() == [3, 12]  # one of another attempt stays


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


def test_a_table_to_which_nothing_came_is_left_as_it_is(latest: ParquetSink, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = stage(latest, 1, 1), stage(latest, 1, 10, subtask=1)
    commit(latest, 1, [first, second])
    opened, synced = latest.table(), list[int]()
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(descriptor) or fsync(descriptor))
    commit(latest, 2, [first, second])
    assert (latest.table(), synced) == (opened, [])
    commit(latest, 3, [first])
    assert latest.table() != opened
    assert visible(latest) == [1]
    commit(latest, 4, [replace(first, created_by=4)])
    assert os.path.basename(latest.table()) == "chk-4", "a file of another checkpoint is another file"


def test_a_repeated_commit_is_durable_also_if_the_table_shows_it_already(
    latest: ParquetSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever committed first may have died before the link was durable."""
    handle, synced = stage(latest, 1, 1), list[int]()
    commit(latest, 1, [handle])
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(descriptor) or fsync(descriptor))
    commit(latest, 1, [handle])
    assert synced


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
        SinkError, match=r"does not hold the files that checkpoint 1 wrote: another pipeline writes to .*, or this"
    ):
        commit(sink, 1, [other])
    assert visible(sink) == [1]
    assert sink.staged_paths(1)[-1] == other.path


def test_an_older_history_that_latest_shows_is_not_taken_for_a_late_repeat(latest: ParquetSink) -> None:
    commit(latest, 40, [stage(latest, 40, 40)])
    anew = [stage(latest, 1, 1)]
    future = os.lstat(os.path.join(latest.root, "current")).st_mtime_ns + 1
    os.utime(os.path.join(latest.root, anew[0].path), ns=(future, future))
    with pytest.raises(
        SinkError, match=r"shows checkpoint 40, which is older than .*this database is older than the table"
    ):
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
