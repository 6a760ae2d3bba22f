"""The commit point, the other end (failure), and who is retained afterwards."""

import pytest
from store_steps import (
    PIPELINE,
    Crash,
    acknowledged,
    at,
    completed,
    crash_after,
    metadata,
    status,
    triggered,
    validated,
)

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason


def test_completing_records_when_where_and_how_much(store: CheckpointStore) -> None:
    completed(store, notified=False)
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.status, kept.phase, kept.completed_at) == (Status.COMPLETED, Phase.VALIDATED, at(30))
    assert (kept.metadata_path, kept.state_size, kept.checkpointed_size) == (metadata(1), 4000, 1000)
    assert kept.notified_at is None


def test_a_checkpoint_that_was_not_validated_does_not_complete(store: CheckpointStore) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.complete(1, at(30), metadata(1), 0, 0)
    assert status(store, 1) is Status.IN_PROGRESS


def test_a_checkpoint_completes_once(store: CheckpointStore) -> None:
    completed(store)
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.complete(1, at(99), "elsewhere", 1, 1)
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.completed_at, kept.metadata_path) == (at(30), metadata(1))


def test_a_completion_that_rolls_back_did_not_happen(store: CheckpointStore) -> None:
    validated(store)
    with pytest.raises(Crash):
        crash_after(store, lambda transaction: transaction.complete(1, at(30), metadata(1), 0, 0))
    assert status(store, 1) is Status.IN_PROGRESS
    with store.transaction(PIPELINE) as transaction:
        assert transaction.latest_completed() is None


def test_metadata_lie_below_the_storage(store: CheckpointStore) -> None:
    validated(store)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.complete(1, at(30), "/etc/passwd", 0, 0)


def test_retained_are_the_completed_ones_oldest_first(store: CheckpointStore) -> None:
    for _ in range(3):
        completed(store)
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert [c.checkpoint_id for c in transaction.retained()] == [1, 2, 3]
        latest = transaction.latest_completed()
        assert latest is not None
        assert latest.checkpoint_id == 3
        transaction.subsume([1, 2])
        assert [c.checkpoint_id for c in transaction.retained()] == [3]
    assert [status(store, id_) for id_ in (1, 2, 3)] == [Status.SUBSUMED, Status.SUBSUMED, Status.COMPLETED]


def test_only_completed_checkpoints_are_subsumed(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.subsume([1, 7])
        transaction.subsume([])
    assert status(store, 1) is Status.IN_PROGRESS


@pytest.mark.parametrize("reach", [triggered, acknowledged, validated])
def test_a_checkpoint_can_fail_in_every_phase(store: CheckpointStore, reach) -> None:
    reach(store)
    before = store.checkpoint(PIPELINE, 1)
    assert before is not None
    with store.transaction(PIPELINE) as transaction:
        assert transaction.fail(1, FailureReason.VALIDATION_FAILED, "3 rows are null", at(50))
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.status, kept.phase, kept.failed_at) == (Status.FAILED, before.phase, at(50))
    assert (kept.failure_reason, kept.failure_message) == (FailureReason.VALIDATION_FAILED, "3 rows are null")


def test_the_first_failure_stays(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.fail(1, FailureReason.CHECKPOINT_EXPIRED, "late", at(700))
        assert not transaction.fail(1, FailureReason.TASK_FAILURE, "also", at(701))
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert kept.failure_reason is FailureReason.CHECKPOINT_EXPIRED


def test_a_completed_checkpoint_cannot_fail_any_more(store: CheckpointStore) -> None:
    completed(store)
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.fail(1, FailureReason.TASK_FAILURE, "late", at(99))
    assert status(store, 1) is Status.COMPLETED


def test_a_failed_checkpoint_cannot_go_on(store: CheckpointStore) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.fail(1, FailureReason.TASK_FAILURE, "gone", at(25))
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.advance(1, Phase.ACKNOWLEDGED, Phase.VALIDATED, at(30))
        assert not transaction.complete(1, at(30), metadata(1), 0, 0)
    assert status(store, 1) is Status.FAILED


def test_an_unknown_checkpoint_neither_completes_nor_fails(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.complete(9, at(30), metadata(9), 0, 0)
        assert not transaction.fail(9, FailureReason.TASK_FAILURE, "gone", at(1))


def test_the_first_notification_is_recorded(store: CheckpointStore) -> None:
    completed(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.mark_notified(1, transaction.begin_commit(at(99)), at(99))
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert kept.notified_at == at(40)


def test_what_has_not_completed_cannot_be_notified(store: CheckpointStore) -> None:
    validated(store)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.mark_notified(1, transaction.begin_commit(at(40)), at(40))
