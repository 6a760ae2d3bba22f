"""A continuous run dies before or after any transaction or commit of a sink, or ends because the store is away; the
next one gives the same result."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import pytest
from executors import Slow
from live_pipelines import Live, shown
from memory_store import MemoryCheckpointStore
from worlds import Crash

from tidegate.coordination.continuous import continuous_run as continuous
from tidegate.ports import CheckpointStore, Prefetch, StoreTransaction
from tidegate.protocol.facts.errors import PipelineStatusError, StoreUnavailableError
from tidegate.protocol.facts.paths import with_markers
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason


class Fragile:
    """The store as one process sees it, which dies at a chosen effect. From then on nothing that it does happens."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.begin()

    def begin(self, dies_at: int | None = None, before: bool = True) -> None:
        """Another process."""
        self.effects, self._dies_at, self._before, self._is_dead = 0, dies_at, before, False

    def __getattr__(self, name: str) -> object:
        self._require_alive()
        return getattr(self._store, name)

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Any = ()
    ) -> Iterator[StoreTransaction]:
        self._require_alive()
        with self._store.transaction(pipeline_id, prefetch, participants) as tx:
            yield tx
            if is_fatal := self.count():
                self._die(self._before)
        if is_fatal:
            self._die(True)

    def commit(self, checkpoint_id: int) -> None:
        """A sink is about to commit."""
        self._require_alive()
        self._die(self.count())

    def count(self) -> bool:
        """Whether this effect is the fatal one."""
        self.effects += 1
        return self.effects - 1 == self._dies_at

    def _die(self, now: bool) -> None:
        self._is_dead = self._is_dead or now
        self._require_alive()

    def _require_alive(self) -> None:
        if self._is_dead:
            raise Crash


def begun(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch, **config: object) -> tuple[Live, Fragile]:
    fragile = Fragile(store)
    one = Live(fragile, monkeypatch, interval="4 s", retained=2, **config)
    one.world.sink.before_commit = fragile.commit
    return one, fragile


def one_process(one: Live, fragile: Fragile, dies_at: int | None, before: bool) -> bool:
    """Takes periodic checkpoints, one by hand, one that is declined, and one that is rejected. Whether it lived on."""
    fragile.begin(dies_at, before)
    now, newest = one.second, len(one.history())
    one.at(now + 6, lambda: one.world.ask(f"by hand {now}"))
    one.orders = {newest + 3: FailureReason.CHECKPOINT_DECLINED}
    one.at(now + 13, lambda: setattr(one.judge, "verdict", False))
    one.at(now + 17, lambda: setattr(one.judge, "verdict", True))
    try:
        one.run(until=now + 20)
    except Crash:
        return False
    finally:  # whatever comes next has no such troubles
        one.forget()
        one.orders, one.judge.verdict = {}, True
        fragile.begin()
        one.world.reopen(fragile)
    return True


def stop(one: Live) -> None:
    """In the end every number is there once, and what was aborted is deleted."""
    one.at(one.second + 2, lambda: one.world.stop("stop"))
    assert one.run(until=one.second + 60).status is PipelineStatus.FINISHED
    one.check()
    assert len(one.acknowledged) == len(set(one.acknowledged))
    one.world.clock.time += timedelta(hours=2)
    one.world.coordinator.clean()
    assert one.world.sink.staged == {}
    kept = [record.metadata_path for record in one.world.store.history("p", 10_000) if record.status == "COMPLETED"]
    assert one.world.storage.files.keys() == set(with_markers(kept))


def test_a_crash_at_any_moment_costs_nothing(store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = isinstance(store, MemoryCheckpointStore)
    stride = 1 if in_memory else 17  # the same code; a database takes its time
    one, fragile = begun(store, monkeypatch)
    number, crashes, survived = 0, 0, 0
    while survived < 2:
        survived = 0
        for before in (True, False):
            if one_process(one, fragile, number, before):
                survived += 1
            else:
                crashes += 1
                one.run(until=one.second + 6)
            one.check()
        number += stride
        if in_memory:
            stop(one)
            one, fragile = begun(MemoryCheckpointStore(), monkeypatch)
    if not in_memory:
        stop(one)
    assert crashes * stride > 100, f"only {crashes} crash points were met"


def test_a_crash_at_any_moment_costs_nothing_while_checkpoints_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    number, crashes, survived, ends = 0, 0, 0, set[str]()
    while survived < 2:
        survived = 0
        for before in (True, False):
            one, fragile = begun(MemoryCheckpointStore(), monkeypatch, max_concurrent=3)
            monkeypatch.setattr(Slow, "now", one.world.clock.now, raising=False)
            monkeypatch.setattr(Slow, "takes", timedelta(seconds=6))
            monkeypatch.setattr(continuous, "ThreadPoolExecutor", Slow)
            if one_process(one, fragile, number, before):
                survived += 1
            else:
                crashes += 1
                one.run(until=one.second + 14)
            one.check()
            ends |= {status for _, _, status in one.history()}
            stop(one)
        number += 1
    assert crashes > 100, f"only {crashes} crash points were met"
    assert ends >= {"CHECKPOINT_SUBSUMED", "JOB_FAILOVER_REGION", "COMPLETED"}


def test_a_crash_at_any_moment_of_the_end_still_finishes_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    number, survived = 0, 0
    while survived < 2:
        survived = 0
        for before in (True, False):
            one, fragile = begun(MemoryCheckpointStore(), monkeypatch)
            one.end = 6
            fragile.begin(number, before)
            try:
                one.run()
                survived += 1
            except Crash:
                fragile.begin()
                with suppress(PipelineStatusError):  # the new attempt notifies the sinks first, and that may be the end
                    one.run()
            fragile.begin()
            pipeline = one.world.store.pipeline("p")
            assert pipeline is not None
            assert pipeline.status is PipelineStatus.FINISHED
            assert shown(one.world.sink) == [0, 1, 2, 3, 4, 5]
        number += 1
    assert number > 20


def test_an_acknowledgement_that_could_not_be_recorded_ends_the_run(live: Callable[..., Live]) -> None:
    """It is recorded beside the rounds. The next run takes the checkpoint's rows."""
    one = live(interval="10 s")
    record = one.world.coordinator.record_acknowledgements
    away = [StoreUnavailableError("the store is away")]

    def recorded(checkpoint_id: int, acknowledgements: object) -> object:
        if checkpoint_id == 2 and away:
            raise away.pop()
        return record(checkpoint_id, acknowledgements)

    one.world.coordinator.record_acknowledgements = recorded
    with pytest.raises(StoreUnavailableError):
        one.run(until=45)
    one.run(until=95)
    one.check()
