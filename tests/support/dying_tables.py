"""A pipeline that takes checkpoints, is restored, and dies at some of that; and what it has behind it then."""

import os
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from marts import Mart
from parquet_sinks import Died
from several_tables import SeveralTables
from stopped import EFFECTS
from worlds import Crash, MortalStore

from tidegate.protocol.facts.errors import NothingToUndoError
from tidegate.protocol.facts.reasons import FailureReason

CRASHES = ("crash before commit", "crash after commit")


class Deaths:
    """Lets the thread that writes die before an effect, when `left` of them are over: on the file system, or a function
    that is named."""

    def __init__(self, patch: pytest.MonkeyPatch, *others: tuple[Any, str]) -> None:
        self.left: int | None = None
        self._writer = threading.current_thread()
        for owner, name in (*((os, name) for name in EFFECTS), *others):
            patch.setattr(owner, name, self._mortal(getattr(owner, name)))

    def _mortal(self, effect: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is self._writer and self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Died
            return effect(*args, **kwargs)

        return call


class Past:
    """What the pipeline has behind it: `branches` has the ids of each checkpoint's branch, `latest` is the present,
    `kept` are those to which a restore can go back."""

    def __init__(self, shop: SeveralTables | Mart) -> None:
        self._shop, self.branches, self.latest, self.kept = shop, dict[int, list[int]](), 0, list[int]()

    def check(self) -> None:
        """Whatever the last step has come to, by the database."""
        name = self._shop.pipeline.name
        with self._shop.store.transaction(name) as tx:
            pending = tx.in_progress()
        for record in pending:  # and clean, so that some are kept no longer
            self._shop.coordinator.abort(record.checkpoint_id, FailureReason.TASK_FAILURE, "It died.")
        with self._shop.store.transaction(name) as tx:
            retained = tx.retained()
        self.kept = [record.checkpoint_id for record in retained]
        newest = self.kept[-1]
        if newest not in self.branches:
            self.branches[newest] = [*self.branches.get(self.latest, []), newest]
        self.latest = newest


class Life:
    """Takes checkpoints and restores, of which some are undone. `died`, `restored`, `undone`: how often."""

    def __init__(self, shop: SeveralTables | Mart, deaths: Deaths, seed: int, effects: int = 60) -> None:
        assert isinstance(shop.store, MortalStore)
        self._shop, self._store, self._deaths, self._draw = shop, shop.store, deaths, Random(seed)
        self._effects = effects
        self.past = Past(shop)
        self.died = self.restored = self.undone = 0

    def begin(self) -> None:
        self._shop.take()
        self.past.check()

    def go_on(self) -> None:
        """A checkpoint, a restore or an undo, or only a part of it."""
        draw = self._draw
        self._deaths.left = draw.choice([None, None, draw.randrange(self._effects)])
        self._store.plan = (draw.randrange(9), draw.choice(CRASHES)) if draw.random() < 0.2 else None
        try:
            self._step()
        except (Died, Crash):
            self.died += 1
            self._shop.reopen()
        self._deaths.left, self._store.plan = None, None
        self.past.check()

    def _step(self) -> None:
        kind = self._draw.random()
        if kind < 0.05:
            try:
                self._shop.restore()
                self.undone += 1
            except NothingToUndoError:
                self._shop.take()
        elif kind < 0.15:
            self._shop.restore(self._draw.choice(self.past.kept))
            self.restored += 1
        else:
            self._shop.take()
