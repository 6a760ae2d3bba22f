"""What listeners hear (protocol.md section 10): completions after the commit, failures of every kind,
what was pushed out."""

import contextlib
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from desks import Desk
from records import at
from store_steps import PIPELINE, completed, triggered
from user_actions import suspend
from ways_to_fail import NAMES, WAYS_TO_FAIL, take
from worlds import DEATHS, Crash, Judge, MortalStore, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.observing.listeners import Listeners, NotifiedListeners, watch_failures
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import CheckpointListener, CheckpointStore
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.lifecycle import COMMITTED, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.steps.trigger import AlreadyCompleted

MakeDesk = Callable[..., Desk]


class Untrue(BaseException):
    """Not an Exception: of those that a listener raises, nobody would hear."""


class Ears(CheckpointListener):
    """Remembers what it heard, and looks whether it is so."""

    def __init__(self, world: Desk, raises: bool = False) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self._world = world
        self._raises = raises

    def _hear(self, notified: Collection[Status], *what: Any) -> None:
        record = self._world.store.checkpoint("p", what[1])
        if record is None or record.status not in notified:
            raise Untrue(f"{what}: {record}")
        self.heard.append(what)
        if self._raises:
            raise RuntimeError("no patience")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if checkpoint_id not in self._world.sink.visible:
            raise Untrue(f"the sink has not committed checkpoint {checkpoint_id}")
        self._hear(COMMITTED, "complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        self._hear({Status.FAILED}, "aborted", checkpoint_id, latest_completed)

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self._hear({Status.SUBSUMED, Status.DISCARDED}, "subsumed", checkpoint_id)


def listening(world: Desk) -> Ears:
    ears = Ears(world)
    world.pipeline.listen(ears)
    return ears


def test_the_newest_that_was_subsumed_is_found(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as tx:
        assert tx.latest_subsumed() is None
    for subsume in ([], [1], [2]):
        completed(store, subsume=subsume)
    triggered(store)
    with store.transaction(PIPELINE) as tx:
        assert tx.latest_subsumed() == 2
        tx.remove_deletions(tx.pending_deletions(100))
        tx.mark_discarded()
        assert tx.latest_subsumed() == 2


def test_what_a_restore_left_behind_was_not_subsumed_by_anything(desk: MakeDesk) -> None:
    world = desk(retained=3, undo_within="1 d")
    ears = listening(world)
    take(world, "a", "b", "c", "d")
    world.coordinator.restore(ToCheckpoint(2))
    world.clock.advance(86401)
    world.coordinator.clean()  # it is too late for an undo: 3 and 4 go
    assert world.store.checkpoint("p", 4).status is Status.DISCARDED
    with world.store.transaction("p") as tx:
        assert tx.latest_subsumed() == 1
    take(world, "e")
    assert [what for what in ears.heard if what[0] == "subsumed"] == [("subsumed", 1)]


def test_a_completion_is_notified_after_the_sinks_and_then_what_it_subsumed(desk: MakeDesk) -> None:
    world = desk(retained=2)
    ears = listening(world)
    take(world, "a", "b", "c", "d")
    complete = [("complete", number) for number in (1, 2, 3, 4)]
    assert ears.heard == [*complete[:3], ("subsumed", 1), complete[3], ("subsumed", 2)]


def test_no_listener_is_notified_before_the_notify_step(desk: MakeDesk) -> None:
    world = desk()
    ears = listening(world)
    world.ask("a")
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.finalize(1)
    assert ears.heard == []
    world.ask("b")  # makes up for it
    assert ears.heard == [("complete", 1)]
    world.coordinator.notify(1)
    assert ears.heard == [("complete", 1)]


@pytest.mark.parametrize("fail", WAYS_TO_FAIL, ids=NAMES)
def test_every_failure_is_notified_once_with_the_latest_completed(
    desk: MakeDesk, fail: Callable[[Desk], object]
) -> None:
    world = desk(retention="RETAIN_ON_CANCELLATION")
    ears = listening(world)
    take(world, "a")
    world.ask("b")
    fail(world)
    world.coordinator.abort(2, FailureReason.TASK_FAILURE, "again")
    assert ears.heard == [("complete", 1), ("aborted", 2, 1)]


def test_a_failure_before_anything_completed_has_no_latest(desk: MakeDesk) -> None:
    world = desk()
    ears = listening(world)
    world.ask("a")
    suspend(world.coordinator)
    assert ears.heard == [("aborted", 1, None)]


def test_a_failure_makes_up_for_a_completion_that_was_notified_elsewhere(desk: MakeDesk) -> None:
    world = desk()
    take(world, "a", "b")
    ears = listening(world)
    world.ask("c")
    world.coordinator.abort(3, FailureReason.TASK_FAILURE, "gone")
    world.ask("d")
    world.coordinator.abort(4, FailureReason.TASK_FAILURE, "gone")
    assert ears.heard == [("complete", 2), ("aborted", 3, 2), ("aborted", 4, 2)]


def test_a_failure_that_is_rolled_back_is_not_notified(desk: MakeDesk, store: CheckpointStore) -> None:
    world = desk()
    ears = listening(world)
    world.ask("a")
    mortal = MortalStore(store)
    world.reopen(mortal)
    mortal.plan = (0, "crash before commit")
    with pytest.raises(Crash):
        suspend(world.coordinator)
    assert ears.heard == []


def test_a_listener_that_raises_harms_nobody(desk: MakeDesk, caplog: pytest.LogCaptureFixture) -> None:
    world = desk(retained=1)
    rude = Ears(world, raises=True)
    world.pipeline.listen(rude)
    polite = listening(world)
    with caplog.at_level(logging.ERROR, "tidegate"):
        take(world, "a", "b")
        world.ask("c")
        world.coordinator.abort(3, FailureReason.TASK_FAILURE, "gone")
    assert polite.heard == [("complete", 1), ("complete", 2), ("subsumed", 1), ("aborted", 3, 2)]
    assert [what for what in rude.heard if what != ("complete", 2)] == [x for x in polite.heard if x != ("complete", 2)]
    assert rude.heard.count(("complete", 2)) == 2, "what it did not take in is notified again"
    assert "Listener Ears of pipeline p raised when it was notified that checkpoint 2 completed" in caplog.text
    record = world.store.checkpoint("p", 2)
    assert record is not None
    assert (record.status, record.notified_at) == (Status.COMPLETED, at(0))


def test_a_listener_may_leave_methods_out(desk: MakeDesk) -> None:
    class OnlyFailures(CheckpointListener):
        heard: tuple[int, int | None] | None = None

        def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
            self.heard = checkpoint_id, latest_completed

    world, listener = desk(retained=1), OnlyFailures()
    world.pipeline.listen(listener)
    take(world, "a", "b")
    world.ask("c")
    suspend(world.coordinator)
    assert listener.heard == (3, 2)


def open_another(world: Desk, notified: NotifiedListeners) -> None:
    """Another coordinator of the same pipeline, in a process of which this is what listeners heard."""
    world.coordinator = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock, notified)


@pytest.mark.parametrize("same_process", [True, False])
def test_all_steps_in_a_process_notify_a_listener_once(desk: MakeDesk, same_process: bool) -> None:
    world, notified = desk(), NotifiedListeners()
    ears = listening(world)
    open_another(world, notified)
    take(world, "a")
    world.ask("b")
    open_another(world, notified if same_process else NotifiedListeners())
    suspend(world.coordinator)
    repeated = [] if same_process else [("complete", 1)]
    assert ears.heard == [("complete", 1), *repeated, ("aborted", 2, 1)]


@pytest.mark.parametrize("how", DEATHS)
def test_a_crash_at_any_commit_never_notifies_too_early_and_never_forgets(
    desk: MakeDesk, store: CheckpointStore, how: str
) -> None:
    """A process dies at each of its transactions in turn; the next one, with listeners of its own, goes on."""
    world = desk(retained=1)
    told: set[int] = set()
    mortal = MortalStore(store)
    number, died = 0, True
    while died:
        for plan in ((number, how), None):  # the process that dies, and the next one
            ears = Ears(world)
            world.pipeline.listeners.clear()
            world.pipeline.listen(ears)
            world.reopen(mortal)
            mortal.plan = plan
            with contextlib.suppress(*([Crash, CheckpointError] if plan else [])):
                outcome: Any = world.ask(f"r{number}")
                if not isinstance(outcome, AlreadyCompleted):
                    world.acknowledge(outcome.checkpoint_id)
                    world.coordinator.validate(outcome.checkpoint_id, Judge(True))
                    world.coordinator.finalize(outcome.checkpoint_id)
                world.coordinator.notify(outcome.checkpoint_id)
            if plan is not None:
                died = mortal.plan is None
            told |= {what[1] for what in ears.heard if what[0] == "complete"}
        number += 1
    done = {record.checkpoint_id for record in store.history("p", 1000) if record.status in COMMITTED}
    assert told == done
    assert number > 8


# -- what nobody must hear too early


class Notes(CheckpointListener):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None:
        self.heard.append(("aborted", checkpoint_id, latest_completed))

    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None:
        self.heard.append(("subsumed", checkpoint_id))


def test_each_pipeline_tells_a_listener_of_its_own_checkpoints() -> None:
    notes, notified = Notes(), NotifiedListeners()
    first, second = (Listeners(pipeline_id, [notes], notified) for pipeline_id in ("p", "q"))
    for listeners, checkpoint_id in ((first, 5), (second, 3), (first, 5), (second, 3)):
        listeners.completed(checkpoint_id)
        listeners.subsumed(checkpoint_id - 1)
    assert notes.heard == [("complete", 5), ("subsumed", 4), ("complete", 3), ("subsumed", 2)]


@dataclass(slots=True)
class Slotted:
    """Equal to another one that heard the same, and neither hashable nor fit for a weak reference."""

    heard: list[int] = field(default_factory=list)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.heard.append(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int, latest_completed: int | None) -> None: ...
    def notify_checkpoint_subsumed(self, checkpoint_id: int) -> None: ...


def test_any_object_may_listen_and_equal_ones_are_told_apart(desk: MakeDesk) -> None:
    world, both = desk(), [Slotted(), Slotted()]
    for one in both:
        world.pipeline.listen(one)
    take(world, "a", "b")
    assert [one.heard for one in both] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("told", [True, False])
def test_a_failure_names_no_checkpoint_whose_sinks_have_not_committed(store: CheckpointStore, told: bool) -> None:
    notes = Notes()
    watched = watch_failures(store, Listeners(PIPELINE, [notes], NotifiedListeners()))
    completed(store, notified=told)
    triggered(store)
    with watched.transaction(PIPELINE) as tx:
        tx.fail(2, FailureReason.TASK_FAILURE, "gone", at(10))
    assert notes.heard == ([("complete", 1), ("aborted", 2, 1)] if told else [("aborted", 2, None)])


def test_what_was_subsumed_is_not_notified_after_an_older_completion(desk: MakeDesk) -> None:
    """While one process commits the sinks of checkpoint 1, another does all of it and of checkpoint 2,
    which pushes 1 out."""
    world = desk(retained=1)
    notes = Notes()
    world.pipeline.listen(notes)
    world.ask("a")
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))
    world.coordinator.finalize(1)

    def meanwhile(checkpoint_id: int) -> None:
        world.sink.before_commit = lambda checkpoint_id: None
        mine, other = world.coordinator, small_pipeline(world.sink)
        other.checkpoints = world.pipeline.checkpoints
        world.coordinator = CheckpointCoordinator(other, world.store, world.storage, world.clock)
        take(world, "b")
        world.coordinator = mine

    world.sink.before_commit = meanwhile
    world.coordinator.notify(1)
    assert notes.heard == [("complete", 1)]
    take(world, "c")
    assert notes.heard == [("complete", 1), ("complete", 3), ("subsumed", 2)]
