"""A commit that is stopped anywhere, overtaken, and goes on: it changes nothing,
and what readers see never goes back."""

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from commits import Attempt, commit
from parquet_sinks import Died, Mortal, prepared, stage, tree, visible
from stopped import Stopped

from tidegate.protocol.facts.errors import SupersededAttemptError
from tidegate.protocol.facts.records import StateHandle
from tidegate.sinks.parquet import ParquetSink


def files(sink: ParquetSink) -> dict[str, object]:
    """Everything below the sink: which file or where a link leads."""
    paths = {name: os.path.join(sink.root, name) for name in tree(sink)}
    return {name: os.readlink(path) if os.path.islink(path) else os.lstat(path).st_ino for name, path in paths.items()}


class Zombies:
    """Commits of checkpoint 3, each in a new place, stopped before one step after the other until one comes
    to its end."""

    def __init__(self, mode: str, patch: pytest.MonkeyPatch) -> None:
        self.mode, self._patch = mode, patch
        self.stops: list[str] = []

    def __iter__(self) -> Iterator[tuple[ParquetSink, list[StateHandle], list[int], Stopped]]:
        for at in itertools.count(1):
            sink, staged, _, after = prepared(f"zombie-{at}", self.mode)
            attempt = Attempt()
            with self._patch.context() as patch:
                zombie = Stopped(patch, at, lambda s=sink, h=staged, a=attempt: s.commit(3, h, a))
                confirm = attempt.confirm
                attempt.confirm = lambda z=zombie, c=confirm: (z.meet("confirm"), c())  # type: ignore[method-assign]
                if not zombie.begin():
                    assert zombie.error is None
                    return
                self.stops.append(zombie.steps[-1])
                yield sink, staged, after, zombie
                assert zombie.error is None or isinstance(zombie.error, SupersededAttemptError), repr(zombie.error)


@pytest.mark.parametrize("mode", ["append", "latest"])
def test_a_stopped_commit_that_goes_on_after_its_successor_died_costs_nothing(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor dies at one of its own steps, another one each time; whoever comes next finishes and tidies."""
    for number, (sink, staged, after, zombie) in enumerate(Zombies(mode, monkeypatch)):
        with monkeypatch.context() as patch:
            Mortal(patch, 1 + 7 * number % 16, after=bool(number % 2))
            with suppress(Died):
                commit(sink, 3, staged)
        zombie.go_on()
        commit(sink, 3, staged)
        assert visible(sink) == after
        commit(sink, 4, [stage(sink, 4, 4)])
        assert visible(sink) == (sorted([*after, 4]) if mode == "append" else [4])
        assert os.listdir(Path(sink.root, "_committing")) == []
