"""A process that dies, or a network that is cut, at any moment of a commit: each checkpoint is there once and whole."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kafka_brokers import VARIABLE, Broker
from kafka_sinks import CuttingProxy, Request, Watched, on_trial

from tidegate.kafka import markers, transactions
from tidegate.kafka.transactions import Transaction
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.testing.attempts import KitAttempt
from tidegate.testing.processes import Child
from tidegate.testing.trials import Trial

#: What a commit does that is seen elsewhere, or that asks for it.
EFFECTS = [
    (Transaction, "fence_others"),
    (KitAttempt, "confirm"),
    (markers, "read_decided"),
    (Transaction, "begin"),
    (Transaction, "produce"),
    (Transaction, "flush"),
    (Transaction, "commit"),
]


def test_a_process_that_dies_before_or_after_each_effect_is_followed_by_another(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thing, name in EFFECTS:
        for after in (False, True):
            for nth in (1, 3) if name == "produce" else (1,):
                trial = on_trial(broker, tmp_path / "home")
                trial.take(1, trial.some_rows(1, 2))
                staged = trial.stage(2, trial.some_rows(3, 4, 5))
                attempt = trial.attempts.next()
                with monkeypatch.context() as patch:
                    patch.setattr(thing, name, dying(getattr(thing, name), nth, after))
                    assert Child(lambda t=trial, s=staged, a=attempt: t.sink.commit(2, s, a)).wait().killed
                at = f"{'after' if after else 'before'} {name}"
                there = name == "commit" and after
                trial.check(f"Killed {at}", trial.some_rows(1, 2, *((3, 4, 5) if there else ())))
                trial.commit(2, staged)
                trial.check(f"Killed {at}, and committed again")
                trial.take(3, trial.some_rows(6))
                trial.check(f"Killed {at}, committed again, and the next checkpoint")


def dying(effect: Callable[..., Any], nth: int, after: bool) -> Callable[..., Any]:
    calls = Counter[str]()

    def call(*args: Any, **given: Any) -> Any:
        calls["all"] += 1
        if calls["all"] == nth and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        found = effect(*args, **given)
        if calls["all"] == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return call


def test_a_topic_has_each_checkpoint_once_whenever_its_process_is_killed(broker: Broker, tmp_path: Path) -> None:
    live_and_die(broker, tmp_path, 6)


@pytest.mark.long
def test_a_topic_has_each_checkpoint_once_after_65_kills(broker: Broker, tmp_path: Path) -> None:
    assert live_and_die(broker, tmp_path, 65) > 0, "no process was killed in a transaction"


def live_and_die(broker: Broker, tmp_path: Path, kills: int) -> int:
    """How many rows were written in vain."""
    trial = on_trial(broker, tmp_path / "home")
    done = tmp_path / "done"  # what Postgres knows
    done.write_text("0")
    draw, began = random.Random(kills), time.monotonic()
    commit_on_and_on(trial, done, 1)
    longest = max(0.9, 2 * (time.monotonic() - began))
    for _ in range(kills):
        child = Child(lambda: commit_on_and_on(trial, done))
        time.sleep(draw.uniform(0.05, longest))
        child.signal(signal.SIGKILL)
        assert child.wait().killed
    newest = int(done.read_text()) + 2
    commit_on_and_on(trial, done, newest)
    rows = Counter(row["k"] for row in broker.rows(trial.sink.topic))
    expected = Counter(range(20, 20 * (newest + 1)))
    assert rows == expected, f"missing {sorted(expected - rows)[:5]}, twice {sorted(rows - expected)[:5]}"
    written = len(broker.messages(trial.sink.topic, "read_uncommitted"))
    print(f"{kills} kills, {newest} checkpoints, {written} rows written, {rows.total()} seen")
    return written - rows.total()


def commit_on_and_on(trial: Trial, done: Path, until: int | None = None) -> None:
    """Checkpoint n has the rows from 20 n. It is recorded after its commit, and asking Postgres takes some time."""
    newest = done.with_suffix(".attempt")
    while until is None or int(done.read_text()) < until:
        id_ = int(done.read_text()) + 1
        number = int(newest.read_text()) + 1 if newest.exists() else 1
        record(newest, number)
        staged = trial.stage(id_, trial.some_rows(*range(20 * id_, 20 * id_ + 20)), attempt=number)
        asks = dict.fromkeys((1, 2), lambda: time.sleep(0.04))
        trial.sink.commit(id_, staged, Watched(KitAttempt(number, newest), asks))
        record(done, id_)


def record(path: Path, number: int) -> None:
    """In one step: the process may be killed at any moment."""
    written = path.with_suffix(f".{os.getpid()}")
    written.write_text(str(number))
    written.replace(path)


@pytest.fixture
def proxy(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Any:
    if broker.servers.count(":") != 1:
        pytest.skip("the proxy is for one broker")
    proxy = CuttingProxy(broker)
    monkeypatch.setenv(VARIABLE, f'{{"bootstrap.servers": "127.0.0.1:{proxy.port}"}}')
    yield proxy
    proxy.close()


def test_a_connection_that_is_cut_in_any_phase(
    proxy: CuttingProxy, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client repeats what it may. Else the next attempt finds out what has become of it."""
    monkeypatch.setattr(transactions, "TIME_LIMIT", 4.0)
    failed = Counter[str]()
    for request in Request:
        for answered in (False, True):
            trial = on_trial(broker, tmp_path / "home")
            trial.take(1, trial.some_rows(1, 2))
            staged = trial.stage(2, trial.some_rows(3, 4, 5))
            proxy.cut, proxy.answered, cuts = request, answered, proxy.cuts
            at = f"{'behind' if answered else 'in front of'} {request.name}"
            try:
                trial.commit(2, staged)
            except CheckpointError as error:
                failed[type(error).__name__] += 1
                print(at, error)
            assert proxy.cuts == cuts + 1, f"nothing was cut {at}"
            proxy.cut = None
            trial.commit(2, staged)
            trial.check(f"Cut {at}, and committed again")
            trial.take(3, trial.some_rows(6))
            trial.check(f"Cut {at}, and the next checkpoint")
    assert set(failed) <= {"SinkUnavailableError"}, failed
