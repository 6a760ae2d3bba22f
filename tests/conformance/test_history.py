"""Subtasks of checkpoints that ended long ago are rolled up; those of others, and of what somebody may need, never."""

from collections.abc import Callable
from contextlib import suppress
from unittest.mock import patch

import pytest
from desks import Desk
from store_steps import PIPELINE, acknowledged, completed, delete_everything, fail_checkpoint, triggered

from tidegate import CheckpointHistory
from tidegate.coordination.cleaning import rollup
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import CheckpointStore
from tidegate.protocol.cleaning import rollup as history
from tidegate.protocol.cleaning.rollup import ROLLUP_INTERVAL
from tidegate.protocol.facts.errors import RecordRefusedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind


def past(desk: Callable[..., Desk], **options: object) -> Desk:
    """Checkpoints 1 to 8, of which 2 is a savepoint, 4 has failed and 7 and 8 are retained."""
    world = desk(retained=2, history=CheckpointHistory(**options))
    for number in range(1, 9):
        world.ask(f"r{number}", savepoint=number == 2)
        if number == 4:
            world.coordinator.abort(4, FailureReason.CHECKPOINT_DECLINED, "it declined")
        else:
            world.complete(number)
    return world


def clean_later(world: Desk) -> None:
    world.clock.advance(ROLLUP_INTERVAL.total_seconds() + 1)
    world.coordinator.clean()


def rolled_up(world: Desk) -> list[int]:
    """Whose subtasks are gone. Everything else that is on record of them must be there."""
    records = {record.checkpoint_id: record for record in world.store.history("p", 99)}
    assert sorted(records) == list(range(1, 1 + len(records)))
    return sorted(id_ for id_, record in records.items() if len(world.store.subtasks("p", id_)) != record.num_subtasks)


def test_only_what_ended_long_ago_and_nobody_needs_is_rolled_up(desk: Callable[..., Desk]) -> None:
    world = past(desk, checkpoints=3, age=None)
    before = world.store.history("p", 99), [world.store.verdicts("p", id_) for id_ in range(1, 9)]
    counted = world.store.figures("p")
    clean_later(world)
    assert rolled_up(world) == [1, 3, 4, 5]
    assert all(not world.store.subtasks("p", id_) for id_ in (1, 3, 4, 5))
    assert (world.store.history("p", 99), [world.store.verdicts("p", id_) for id_ in range(1, 9)]) == before
    assert world.store.figures("p") == counted
    clean_later(world)
    assert rolled_up(world) == [1, 3, 4, 5]
    world.ask("r9")
    world.complete(9)
    clean_later(world)
    assert rolled_up(world) == [1, 3, 4, 5, 6]
    assert world.store.figures("p").by_status == {Status.FAILED: 1, Status.DISCARDED: 5, Status.COMPLETED: 3}


def test_a_notification_that_is_repeated_after_all_that_tells_nothing_wrong(desk: Callable[..., Desk]) -> None:
    world = past(desk, checkpoints=3, age=None)
    first = world.coordinator.notify(8)
    assert [each.rows for each in first]
    clean_later(world)
    assert world.coordinator.notify(1) == []
    assert world.coordinator.notify(8) == first


def test_each_bound_counts_for_itself(desk: Callable[..., Desk]) -> None:
    world = past(desk, checkpoints=None, age="1 h")
    clean_later(world)
    assert rolled_up(world) == []
    world.clock.advance(3600)
    world.ask("r9")
    world.complete(9)
    clean_later(world)
    assert rolled_up(world) == [1, 3, 4, 5, 6, 7]  # 7 ended long ago, although it was retained until now


def test_without_a_rule_everything_stays(desk: Callable[..., Desk]) -> None:
    world = desk(retained=1, history=None)
    for number in range(1, 4):
        world.ask(f"r{number}")
        world.complete(number)
    world.clock.advance(10 * 365 * 86400)
    world.coordinator.clean()
    assert rolled_up(world) == []


def test_what_a_restore_needs_is_there_afterwards(desk: Callable[..., Desk]) -> None:
    """A savepoint from long ago, and what a restore has left behind, as long as it can be undone."""
    world = past(desk, checkpoints=1, age=None)
    clean_later(world)
    world.coordinator.restore(ToCheckpoint(2))
    world.ask("r9")
    world.complete(9)
    clean_later(world)
    assert rolled_up(world) == [1, 3, 4, 5, 6]
    assert world.record(9).status is Status.COMPLETED
    abandoned = [id_ for id_ in (7, 8) if world.record(id_).abandoned_by is not None]
    assert abandoned == [7, 8]
    assert all(world.store.subtasks("p", id_) for id_ in (2, 7, 8, 9))


def test_a_long_history_is_rolled_up_in_portions_by_whoever_comes(
    desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = past(desk, checkpoints=100, age=None)
    world.pipeline.checkpoints = type(world.pipeline.checkpoints)(retained=2, history=CheckpointHistory(1, None))
    monkeypatch.setattr(history, "MOST_SUBTASKS", 2 * world.record(1).num_subtasks)
    seen = []
    for _ in range(3):
        world.reopen(world.store)  # one that has died leaves what it has rolled up, and the next one goes on at once
        world.coordinator.clean()
        seen.append(rolled_up(world))
    assert seen == [[1, 3], [1, 3, 4, 5], [1, 3, 4, 5, 6]]


def test_a_process_that_has_rolled_up_all_looks_again_after_a_while(desk: Callable[..., Desk]) -> None:
    world = past(desk, checkpoints=3, age=None)
    clean_later(world)
    world.coordinator.clean()
    with patch.object(rollup, "choose_for_rollup", side_effect=rollup.choose_for_rollup) as asked:
        world.coordinator.clean()
        assert not asked.called
        clean_later(world)
        assert asked.called


def test_a_store_rolls_up_nothing_that_somebody_needs(store: CheckpointStore) -> None:
    completed(store)  # it is subsumed, and its files are queued
    completed(store, subsume=[1])
    triggered(store)
    fail_checkpoint(store, 3)
    acknowledged(store)
    with store.transaction(PIPELINE) as tx:
        assert [record.checkpoint_id for record in tx.not_rolled_up(9)] == [3]
    for wrong in (1, 2, 4):
        with pytest.raises(RecordRefusedError), store.transaction(PIPELINE) as tx:
            tx.roll_up([3, wrong])
    assert all(store.subtasks(PIPELINE, id_) for id_ in (1, 2, 3, 4))
    delete_everything(store)
    with store.transaction(PIPELINE) as tx:
        tx.mark_discarded()
        assert [record.checkpoint_id for record in tx.not_rolled_up(9)] == [1, 3]
        assert [record.checkpoint_id for record in tx.not_rolled_up(1)] == [1]
        tx.roll_up([1, 3])
        tx.roll_up([3])  # again
        assert tx.not_rolled_up(9) == []
    assert [id_ for id_ in (1, 2, 3, 4) if store.subtasks(PIPELINE, id_)] == [2, 4]
    with store.transaction(PIPELINE) as tx:
        assert tx.begin_attempt(4) == 1
        assert tx.begin_attempt(4) == 1


def test_a_transaction_that_fails_rolls_up_nothing(store: CheckpointStore) -> None:
    triggered(store)
    fail_checkpoint(store, 1)
    with suppress(ZeroDivisionError), store.transaction(PIPELINE) as tx:
        tx.roll_up([1])
        raise ZeroDivisionError
    assert store.subtasks(PIPELINE, 1)


def _all_that_ended(tx, limit):
    """As somebody might write it who forgets why some are left out."""
    found = [tx.checkpoint(id_) for id_ in range(1, tx.last_checkpoint_id() + 1)]
    ended = [each for each in found if each is not None and each.status is not Status.IN_PROGRESS]
    return [each for each in ended if tx.subtasks(each.checkpoint_id)][:limit]


MISTAKES = {
    "a savepoint is rolled up": lambda each: (each.kind, each.status) != (CheckpointKind.CHECKPOINT, Status.COMPLETED),
    "what is retained is rolled up": lambda each: each.kind is CheckpointKind.CHECKPOINT,
    "what can be undone is rolled up": lambda each: each.abandoned_by is not None or each.status is Status.DISCARDED,
    "what has failed is never rolled up": lambda each: each.status is Status.DISCARDED,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(mistake: str, desk: Callable[..., Desk], store: CheckpointStore) -> None:
    """A test above fails with it. The stores refuse the worst of it, and then nothing is rolled up at all."""
    with store.transaction("p") as tx:
        not_rolled_up = patch.object(type(tx), "not_rolled_up", _all_that_ended)
    with patch.object(history, "may_be_rolled_up", MISTAKES[mistake]), not_rolled_up, pytest.raises(AssertionError):
        test_what_a_restore_needs_is_there_afterwards(desk)
