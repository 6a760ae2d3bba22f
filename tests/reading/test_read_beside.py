"""A reader in a loop beside a pipeline that takes checkpoints, dies, and is restored: never two checkpoints in one
read."""

import os
import threading
from random import Random

import pytest
from several_tables import SeveralTables, values
from sizes import sizes
from stopped import EFFECTS

import tidegate
from tidegate.protocol.facts.reasons import FailureReason


class Died(BaseException):
    """Not an `Exception`: nothing in the code under test may take it for an error and clean up."""


class Deaths:
    """Lets the thread that writes die at an effect on the file system, when `left` of them are over."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.left, self._writer = None, threading.current_thread()
        for name in EFFECTS:
            patch.setattr(os, name, self._mortal(getattr(os, name)))

    def _mortal(self, effect):
        def call(*args, **kwargs):
            if threading.current_thread() is self._writer and self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Died
            return effect(*args, **kwargs)

        return call


class Reader(threading.Thread):
    """Reads all tables again and again. `seen` are the checkpoints, and what was read as of each."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.error, self.over = [], None, threading.Event()

    def run(self) -> None:
        try:
            while not self.over.wait(0.02):
                found = tidegate.read("shop")
                self.seen.append((found.checkpoint, values(found)))
        except BaseException as error:
            self.error = error


@pytest.fixture
def shop(store, running_url, tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", running_url)
    monkeypatch.setenv("TIDEGATE_STORAGE", str(tmp_path / "checkpoints"))
    return SeveralTables(store, tmp_path, retained=4, readable_for="2 s")


class Past:
    """What the pipeline has behind it: `branches` has the ids of each checkpoint's branch, `latest` is the present,
    `kept` are those to which a restore can go back."""

    def __init__(self, shop: SeveralTables) -> None:
        self._shop, self.branches, self.latest, self.kept = shop, dict[int, list[int]](), 0, list[int]()

    def look(self) -> None:
        """Whatever the last step has come to, by the database."""
        with self._shop.store.transaction("shop") as tx:
            pending, retained = tx.in_progress(), tx.retained()
        for record in pending:
            self._shop.coordinator.abort(record.checkpoint_id, FailureReason.TASK_FAILURE, "It died.")
        self.kept = [record.checkpoint_id for record in retained]
        newest = self.kept[-1]
        if newest not in self.branches:
            self.branches[newest] = [*self.branches.get(self.latest, []), newest]
        self.latest = newest


@sizes("checkpoints", 30, 1000)
@pytest.mark.timeout(900)
def test_no_read_sees_two_checkpoints(shop, checkpoints, monkeypatch):
    draw, deaths, reader, past = Random(checkpoints), Deaths(monkeypatch), Reader(), Past(shop)
    shop.take()
    past.look()
    reader.start()
    died = 0
    try:
        while len(past.branches) < checkpoints and reader.error is None:
            deaths.left = draw.choice([None, None, draw.randrange(60)])
            try:
                if draw.random() < 0.15:
                    shop.restore(draw.choice(past.kept))
                else:
                    shop.take()
            except Died:
                died += 1
                deaths.left = None
                shop.reopen()
            past.look()
    finally:
        reader.over.set()
        reader.join()
    assert reader.error is None
    assert died > checkpoints / 10
    assert len({id_ for id_, _ in reader.seen}) > checkpoints / 4
    for id_, rows in reader.seen:
        assert rows == {"events": past.branches[id_], "merged": past.branches[id_], "now": [id_]}
