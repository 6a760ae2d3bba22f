"""A commit that dies before or after any of its effects: readers see all or nothing, and a repeat finishes it."""

import pytest
from commits import commit
from parquet_sinks import Died, Mortal, prepared, stage, tree, visible

from tidegate.sinks.parquet import ParquetSink


def effects_of_a_commit(mode: str, patch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    sink, staged, before, after = prepared("whole", mode)
    assert visible(sink) == before
    with patch.context() as within:
        mortal = Mortal(within, None, after=False)
        commit(sink, 3, staged)
    assert visible(sink) == after
    return mortal.count, tree_after_the_next(sink)


def tree_after_the_next(sink: ParquetSink) -> list[str]:
    """Older versions may outlive a repeated commit: the next one removes them."""
    commit(sink, 4, [stage(sink, 4, 4)])
    return tree(sink)


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
                commit(sink, 3, staged)
        assert visible(sink) in (old, new)
        seen.add(tuple(visible(sink)))
        commit(sink, 3, staged)
        assert visible(sink) == new
        assert tree_after_the_next(sink) == whole
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
                    commit(sink, 3, staged)
                except Died:
                    continue
        fourth = [stage(sink, 4, 4)]
        commit(sink, 4, fourth)
        commit(sink, 3, staged)
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
