"""A commit that is stopped anywhere, overtaken, and goes on: it changes nothing,
and what readers see never goes back."""

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commits import Attempt, commit
from parquet_sinks import Died, Mortal, prepared, stage, tree, visible
from stopped import EFFECTS, Stopped

from tidegate.protocol.facts.errors import SupersededAttemptError
from tidegate.protocol.facts.records import StateHandle
from tidegate.sinks import fencing, publish
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
def test_a_stopped_commit_that_goes_on_after_its_successor_changes_nothing(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor completes this checkpoint and the next ones."""
    zombies = Zombies(mode, monkeypatch)
    for sink, staged, after, zombie in zombies:
        commit(sink, 3, staged)
        assert visible(sink) == after
        commit(sink, 4, [stage(sink, 4, 4)])
        commit(sink, 5, [stage(sink, 5, 5)])
        seen = visible(sink)
        assert seen == (sorted([*after, 4, 5]) if mode == "append" else [5])
        known = files(sink)
        zombie.go_on()
        assert visible(sink) == seen
        assert files(sink) == known
    assert set(zombies.stops) >= {*EFFECTS, "confirm", "listdir"} - (
        {"replace", "symlink", "utime"} if mode == "append" else {"unlink"}
    )
    assert len(zombies.stops) > 20


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


def without_taking_away(*_: Any) -> None:
    """What older attempts have prepared stays where it is."""


def link_beside(root: str, private: Any, version: str) -> None:
    """The link is prepared where every attempt prepares it."""
    following = os.path.join(root, "_following")
    if os.path.lexists(following):
        os.unlink(following)
    os.symlink(version, following)
    os.replace(following, os.path.join(root, "current"))


@pytest.mark.parametrize(
    ("mode", "place", "name", "mistake"),
    [
        ("latest", fencing, "_fence_older", without_taking_away),
        ("latest", publish, "point_to", link_beside),
    ],
    ids=["older attempts are not fenced", "the link is not the attempt's own"],
)
def test_the_sweep_notices_a_missing_fence(
    mode: str, place: Any, name: str, mistake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, mistake)
    with pytest.raises(AssertionError):
        test_a_stopped_commit_that_goes_on_after_its_successor_changes_nothing(mode, monkeypatch)
