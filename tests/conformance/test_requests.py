"""Requests that wait, as the store keeps them, and as coordinators work them off (protocol.md section 3)."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from desks import Desk
from records import at
from store_steps import PIPELINE, Crash, crash_after
from worlds import Judge

from tidegate.ports import CheckpointStore, Prefetch, StoreTransaction
from tidegate.protocol.facts.errors import CheckpointError, IllegalRequestError
from tidegate.protocol.facts.names import request_of_region, requests_of_run
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRequest
from tidegate.protocol.steps.admission import LEASE
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, DroppedUntil, Queued, Resumed, Triggered

SECOND = f"{requests_of_run('dag', 'second')}20260101T000000.000000"
REQUEST = CheckpointRequest("r", CheckpointKind.SAVEPOINT, True, False, at(1), at(2))


def stored(store: CheckpointStore) -> list[CheckpointRequest]:
    with store.transaction(PIPELINE) as tx:
        return tx.requests()


def test_a_request_is_kept_as_it_was_put_and_replaced_by_its_name(store: CheckpointStore) -> None:
    dropped = replace(REQUEST, seen_at=at(9), dropped=FailureReason.COORDINATOR_SUSPEND, dropped_message="m")
    with store.transaction(PIPELINE) as tx:
        tx.put_request(REQUEST)
        assert tx.requests() == [REQUEST]
        tx.put_request(replace(REQUEST, request_id="other"))
    with store.transaction(PIPELINE) as tx:
        tx.put_request(dropped)
        tx.remove_requests(["other", "nobody"])
    assert stored(store) == [dropped]


def test_requests_of_one_pipeline_are_not_those_of_another(store: CheckpointStore) -> None:
    with store.transaction("elsewhere") as tx:
        tx.put_request(REQUEST)
    assert stored(store) == []


def test_a_request_of_a_transaction_that_failed_is_not_there(store: CheckpointStore) -> None:
    with pytest.raises(Crash):
        crash_after(store, lambda tx: tx.put_request(REQUEST))
    assert stored(store) == []


@pytest.mark.parametrize(
    "wrong",
    [
        replace(REQUEST, request_id=""),
        replace(REQUEST, seen_at=at(0)),
        replace(REQUEST, dropped_message="but no reason"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(store: CheckpointStore, wrong: CheckpointRequest) -> None:
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as tx:
        tx.put_request(wrong)


def test_what_waits_starts_in_its_order_when_its_turn_has_come(desk: Callable[..., Desk]) -> None:
    world = desk()
    assert world.ask("first", periodic=True) == Triggered(1)
    for request, changes in [
        ("periodic", {"periodic": True}), ("manual", {}), ("later manual", {}), ("savepoint", {"savepoint": True}),
    ]:  # fmt: skip
        world.clock.advance(1)
        assert isinstance(world.ask(request, **changes), Queued)
    world.complete(1)
    for turn, (request, changes) in enumerate(
        [("savepoint", {"savepoint": True}), ("manual", {}), ("later manual", {}), ("periodic", {"periodic": True})], 2
    ):
        last = world.ask("periodic", periodic=True)
        assert isinstance(last, Queued) or request == "periodic"
        assert world.ask(request, **changes) == (Triggered(turn) if request != "periodic" else Resumed(turn))
        world.complete(turn)
    assert world.ask("manual") == AlreadyCompleted(3)
    with world.store.transaction("p") as tx:
        assert tx.requests() == []


def test_who_waits_in_line_is_woken_when_something_changed_and_not_by_others_who_wait_nor_by_itself(
    desk: Callable[..., Desk],
) -> None:
    world = desk()
    world.ask("first")
    assert not world.store.wait_for_change("p", 0)
    for request in ("second", "third"):
        assert isinstance(world.ask(request), Queued)
        assert world.store.wait_for_change("p", 60), "somebody joined"
    for request in ("second", "third", "second"):
        world.clock.advance(1)
        assert isinstance(world.ask(request), Queued)
    assert not world.store.wait_for_change("p", 0.5)
    with world.store.transaction("p") as tx:
        waited = {request.request_id: request.seen_at - request.asked_at for request in tx.requests()}
    assert waited == {"second": timedelta(seconds=3), "third": timedelta(seconds=2)}
    world.complete(1)
    assert world.store.wait_for_change("p", 60)


def test_a_request_that_may_not_wait_is_dropped_and_leaves_no_trace(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    dropped = world.ask("second", wait=False)
    assert isinstance(dropped, Dropped)
    assert dropped.reason is FailureReason.TOO_MANY_CHECKPOINT_REQUESTS
    assert "Checkpoint 1 of pipeline p, requested by first" in dropped.message
    with world.store.transaction("p") as tx:
        assert tx.requests() == []


def test_a_request_does_not_overtake_one_that_waits(desk: Callable[..., Desk]) -> None:
    """That of a DAG run, which waits in the triggerer: its task takes a while to begin."""
    world = desk()
    world.ask("first")
    world.ask(SECOND)
    world.complete(1)
    world.clock.advance(1)
    assert isinstance(world.ask("third"), Queued)
    assert world.ask(SECOND) == Triggered(2)


@pytest.mark.parametrize("dead", ["manual:1", "cli:1", "of a program"])
@pytest.mark.parametrize("savepoint", [False, True])
def test_a_process_that_was_killed_while_it_waited_does_not_hold_up_the_next(
    desk: Callable[..., Desk], dead: str, savepoint: bool
) -> None:
    world = desk()
    world.ask("first")
    assert isinstance(world.ask(dead, savepoint=savepoint), Queued)
    world.complete(1)
    world.clock.advance(1)
    assert world.ask("manual:2", savepoint=savepoint, wait=False) == Triggered(2)
    assert isinstance(world.ask(dead, savepoint=savepoint), Queued), "should it live, it waits for its turn"
    world.complete(2)
    assert world.ask(SECOND, savepoint=savepoint) == Triggered(3)
    world.complete(3)
    assert world.ask(dead, savepoint=savepoint) == Triggered(4)


def test_who_waits_behind_a_dead_one_of_another_kind_is_told_for_how_long(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    world.ask("manual:1", savepoint=True)
    world.complete(1)
    answer = world.ask("manual:2")
    assert isinstance(answer, Queued)
    assert "manual:1 has precedence" in answer.message
    assert "loses its place 120 s after" in answer.message


@pytest.mark.parametrize("periodic", [True, False])
def test_what_a_dead_region_had_asked_for_holds_up_nobody(desk: Callable[..., Desk], periodic: bool) -> None:
    """Its last checkpoint is not periodic, so it comes before the periodic ones of the next attempt."""
    world = desk()
    attempt = world.coordinator.start_region().attempt  # type: ignore[union-attr]
    world.ask("first")
    assert isinstance(world.ask(request_of_region(attempt, 7), periodic=periodic), Queued)
    attempt = world.coordinator.start_region().attempt  # type: ignore[union-attr]
    assert world.ask(request_of_region(attempt, 1), periodic=True) == Triggered(2)
    assert [one.request_id for one in stored(world.store)] == []


def test_a_request_whose_owner_died_holds_up_nobody_for_long(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    world.ask("dead", savepoint=True)
    world.complete(1)
    assert isinstance(world.ask("alive"), Queued)
    world.clock.advance(LEASE.total_seconds() + 1)
    assert world.ask("alive") == Triggered(2)


def test_a_request_may_be_repeated_by_a_machine_whose_clock_is_behind(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("first")
    world.ask("second")
    world.clock.advance(-30)
    assert isinstance(world.ask("second"), Queued)
    world.complete(1)
    assert world.ask("second") == Triggered(2)


class SlowLock:
    """A store whose next transaction waits for the lock while others do something."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self.others: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Any = ()
    ) -> AbstractContextManager[StoreTransaction]:
        others, self.others = self.others, None
        if others is not None:
            others()
        return self._store.transaction(pipeline_id, prefetch, participants)


def test_a_request_that_waited_for_the_lock_is_not_dropped_for_a_pause_of_nothing(store: CheckpointStore) -> None:
    slow = SlowLock(store)
    world = Desk(slow)
    world.ask("first", periodic=True)
    world.acknowledge(1)
    world.coordinator.validate(1, Judge(True))

    def another_one_completes() -> None:
        world.clock.advance(5)
        world.coordinator.finalize(1)
        world.coordinator.notify(1)

    slow.others = another_one_completes
    assert world.ask("second", periodic=True) == Triggered(2)


def test_a_periodic_request_is_dropped_for_the_pause_and_those_behind_it_go_on(desk: Callable[..., Desk]) -> None:
    world = desk(min_pause="1 h")
    world.ask("first")
    world.ask("periodic", periodic=True)
    world.complete(1)
    dropped = world.ask("periodic", periodic=True)
    assert isinstance(dropped, DroppedUntil)
    assert dropped.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS
    assert timedelta(0) < dropped.again_in <= timedelta(hours=1)
    world.clock.advance(timedelta(hours=1).total_seconds())
    assert world.ask("periodic", periodic=True) == Triggered(2)


def test_a_request_that_was_dropped_meanwhile_gets_that_answer_when_repeated(desk: Callable[..., Desk]) -> None:
    world = desk(min_pause="1 h")
    world.ask("first")
    world.ask("a periodic one", periodic=True)
    world.complete(1)
    assert isinstance(world.ask("b periodic one", periodic=True), Dropped)
    dropped = world.ask("a periodic one", periodic=True)
    assert isinstance(dropped, Dropped)
    assert not isinstance(dropped, DroppedUntil), "what was decided then does not say how long it is from now"
    assert dropped.reason is FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS


def test_garbage_of_too_many_checkpoints_is_cleared_away_before_another_starts(desk: Callable[..., Desk]) -> None:
    world = desk(retained=1)
    delete = world.storage.delete

    def refuse(paths: object, closed: object) -> None:
        raise CheckpointError("the storage is away")

    world.storage.delete = refuse
    for number in range(1, 5):
        assert world.ask(f"r{number}") == Triggered(number)
        world.complete(number)
    with world.store.transaction("p") as tx:
        assert tx.cleaning() == 3
    world.storage.delete = delete
    assert world.ask("r5") == Triggered(5)
    with world.store.transaction("p") as tx:
        assert tx.cleaning() == 0


@pytest.mark.parametrize("illegal", ["", "a\0b", "\ud800", "two\nlines", "x" * 10_000])
def test_a_request_without_a_legal_id_is_refused_before_anybody_is_asked(store: CheckpointStore, illegal: str) -> None:
    desk = Desk(store)
    desk.ask("first")
    with pytest.raises(IllegalRequestError, match=r"cannot name a request.*Nothing was triggered"):
        desk.ask(illegal)
    assert [record.request_id for record in store.history("p", 10)] == ["first"]
