"""Several who commit to one `ParquetSink`: at once, one after another died, and one that was overtaken. No Spark."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from commits import Attempt, commit
from parquet_sinks import stage, visible

from tidegate.protocol.facts.errors import (
    SinkError,
    SupersededAttemptError,
)
from tidegate.sinks.parquet import ParquetSink


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
    with ExitStack() as held:
        inodes = {path.stat().st_ino: path for path in [Path(sink.root), *Path(sink.root).rglob("*")]}
        for path in inodes.values():
            descriptor = os.open(path, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        commit(sink, 2, [handle])
    assert visible(sink) == ([1, 2] if mode == "append" else [2])


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
