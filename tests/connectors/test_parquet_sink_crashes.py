"""A commit that dies before or after any of its effects: readers see all or nothing, and a repeat finishes it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.ports import StageContext
from tidegate.protocol.records import StateHandle
from tidegate.sinks.parquet import ParquetSink

EFFECTS = ("rename", "replace", "link", "symlink", "unlink", "mkdir", "rmdir", "fsync")


class Died(BaseException):
    """Not an `Exception`: nothing in the code under test may take it for an error and clean up."""


class Mortal:
    """Lets the process die at its k-th effect on the file system, before it or right after it, and do nothing more."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int | None, after: bool) -> None:
        self.at, self.after, self.count = at, after, 0
        for name in EFFECTS:
            patch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            dies = self.at is not None and self.count >= self.at
            if dies and not (self.after and self.count == self.at):
                raise Died
            try:
                return effect(*args, **kwargs)
            finally:
                if dies:
                    raise Died

        return call


def stage(sink: ParquetSink, checkpoint_id: int, subtask: int, value: int) -> StateHandle:
    rows = pa.table({"v": pa.array([value], pa.int64())})
    return sink.writer().stage(rows, StageContext(checkpoint_id, subtask, 1, f"u{value}"))[0]


def visible(sink: ParquetSink) -> list[int]:
    pattern = "checkpoint=*/*.parquet" if sink.mode == "append" else "current/*.parquet"
    return sorted(value for file in Path(sink.root).glob(pattern) for value in pq.read_table(file)["v"].to_pylist())


def tree(sink: ParquetSink) -> list[str]:
    return sorted(str(path.relative_to(sink.root)) for path in Path(sink.root).rglob("*"))


def prepared(name: str, mode: Any) -> tuple[ParquetSink, list[StateHandle], list[int], list[int]]:
    """A sink with two commits behind it and a third staged, beside what a zombie left; visible before and after."""
    sink = ParquetSink(name, mode)
    carried = stage(sink, 1, 1, 10)
    sink.commit(1, [stage(sink, 1, 0, 1), carried])
    sink.commit(2, [stage(sink, 2, 0, 2), *([carried] if mode == "latest" else [])])
    third = [stage(sink, 3, 0, 3), stage(sink, 3, 2, 30), *([carried] if mode == "latest" else [])]
    stage(sink, 3, 5, 999)
    before = [1, 2, 10] if mode == "append" else [2, 10]
    after = [1, 2, 3, 10, 30] if mode == "append" else [3, 10, 30]
    return sink, third, before, after


def effects_of_a_commit(mode: str, patch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    sink, staged, before, after = prepared("whole", mode)
    assert visible(sink) == before
    with patch.context() as within:
        mortal = Mortal(within, None, after=False)
        sink.commit(3, staged)
    assert visible(sink) == after
    return mortal.count, tree(sink)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_commit_that_dies_anywhere_shows_all_or_nothing_and_a_repeat_finishes_it(
    mode: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    total, whole = effects_of_a_commit(mode, monkeypatch)
    assert total >= 6
    seen = set()
    for at in range(1, total + 1):
        sink, staged, old, new = prepared(f"died-{at}", mode)
        with monkeypatch.context() as patch:
            Mortal(patch, at, after)
            with pytest.raises(Died):
                sink.commit(3, staged)
        assert visible(sink) in (old, new)
        seen.add(tuple(visible(sink)))
        sink.commit(3, staged)
        assert visible(sink) == new
        assert tree(sink) == whole
    assert len(seen) == 2  # the sweep crossed the moment in which the checkpoint became visible


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_commit_that_dies_twice_and_a_later_one_in_between(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    total, _ = effects_of_a_commit(mode, monkeypatch)
    for at in range(1, total + 1):
        sink, staged, _, new = prepared(f"twice-{at}", mode)
        for again in (at, max(1, at // 2)):
            with monkeypatch.context() as patch:
                Mortal(patch, again, after=True)
                try:
                    sink.commit(3, staged)
                except Died:
                    continue
        fourth = [stage(sink, 4, 0, 4)]
        sink.commit(4, fourth)
        sink.commit(3, staged)
        assert visible(sink) == (sorted([*new, 4]) if mode == "append" else [4])


def test_discarding_that_dies_anywhere_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(1, 5):
        sink, staged, before, _ = prepared(f"discard-{at}", "append")
        paths = sink.staged_paths(3)
        assert len(paths) == 3
        assert staged[0].path in paths
        with monkeypatch.context() as patch:
            Mortal(patch, at, after=True)
            with pytest.raises(Died):
                sink.discard(paths)
        sink.discard(paths)
        assert sink.staged_paths(3) == []
        assert visible(sink) == before
        assert "_staging/chk-3" not in tree(sink)


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_staging_that_dies_anywhere_leaves_only_what_the_sweep_finds(
    mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(1, 5):
        sink = ParquetSink(f"stage-{at}", mode)
        sink.commit(1, [stage(sink, 1, 0, 1)])
        with monkeypatch.context() as patch:
            Mortal(patch, at, after=True)
            with pytest.raises(Died):
                stage(sink, 2, 0, 2)
        sink.discard(sink.staged_paths(2))
        assert visible(sink) == [1]
        assert not any("chk-2/" in path for path in tree(sink))
