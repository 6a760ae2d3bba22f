"""Recording a pending checkpoint: ids, requests, expected subtasks, and nothing at all after an error."""

from contextlib import suppress
from dataclasses import replace

import pytest
from store_steps import FIRST, PIPELINE, SUBTASKS, Crash, at, completed, crash_after, record, triggered

from tidegate.ports import CheckpointStore, StoreTransaction
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import OperatorPlan


def test_a_recorded_checkpoint_is_read_back_as_it_was_written(store: CheckpointStore) -> None:
    written = record(1, "run-1")
    with store.transaction(PIPELINE) as transaction:
        transaction.add_pending(written, SUBTASKS)
        assert transaction.checkpoint(1) == written
    assert store.checkpoint(PIPELINE, 1) == written
    assert written.operators[0] == OperatorPlan("source", 1, 128)


def test_ids_start_at_one_and_grow_by_one(store: CheckpointStore) -> None:
    assert [triggered(store), triggered(store), triggered(store)] == [1, 2, 3]


def test_two_ids_of_one_transaction_differ(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as transaction:
        assert [transaction.next_checkpoint_id(), transaction.next_checkpoint_id()] == [1, 2]


def test_an_id_whose_checkpoint_was_not_recorded_is_given_again(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as transaction:
        transaction.next_checkpoint_id()
    assert triggered(store) == 1


def test_the_id_of_a_failed_checkpoint_is_never_given_again(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.fail(1, FailureReason.TASK_FAILURE, "gone", at(1))
    assert triggered(store) == 2


def test_ids_of_pipelines_are_independent(store: CheckpointStore) -> None:
    triggered(store)
    assert triggered(store, pipeline_id="weather") == 1


def test_every_expected_subtask_is_recorded_and_was_asked_nothing_yet(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as transaction:
        transaction.add_pending(record(1, "run-1"), SUBTASKS)
    subtasks = store.subtasks(PIPELINE, 1)
    assert set(subtasks) == set(SUBTASKS)
    assert {(s.attempt, s.acknowledged_at, s.snapshot.handles) for s in subtasks.values()} == {(0, None, ())}


def test_the_newest_checkpoint_of_a_request_is_found(store: CheckpointStore) -> None:
    triggered(store, "run-1")
    with store.transaction(PIPELINE) as transaction:
        transaction.fail(1, FailureReason.TASK_FAILURE, "gone", at(1))
    triggered(store, "run-1")
    triggered(store, "run-2")
    with store.transaction(PIPELINE) as transaction:
        found = transaction.latest_by_request("run-1")
        assert found is not None
        assert found.checkpoint_id == 2
        assert transaction.latest_by_request("run-3") is None


def test_in_progress_lists_the_oldest_first(store: CheckpointStore) -> None:
    completed(store)
    triggered(store)
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert [c.checkpoint_id for c in transaction.in_progress()] == [2, 3]


def test_a_request_cannot_have_two_checkpoints_that_have_not_failed(store: CheckpointStore) -> None:
    completed_id = completed(store, checkpoint_id=triggered(store, "run-1"))
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.add_pending(record(completed_id + 1, "run-1"), SUBTASKS)
    assert store.checkpoint(PIPELINE, completed_id + 1) is None


def test_an_id_cannot_be_recorded_twice(store: CheckpointStore) -> None:
    triggered(store, "run-1")
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.add_pending(record(1, "run-2"), SUBTASKS)
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert kept.request_id == "run-1"


@pytest.mark.parametrize(
    "stage",
    [(Status.IN_PROGRESS, Phase.ACKNOWLEDGED), (Status.COMPLETED, Phase.VALIDATED), (Status.FAILED, Phase.TRIGGERED)],
)
def test_a_checkpoint_begins_as_triggered(store: CheckpointStore, stage: tuple[Status, Phase]) -> None:
    begun = replace(record(1, "run-1"), status=stage[0], phase=stage[1])
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.add_pending(begun, SUBTASKS)
    assert store.history(PIPELINE, 10) == []


def test_a_subtask_cannot_be_expected_twice(store: CheckpointStore) -> None:
    twice = (FIRST, FIRST, *SUBTASKS[2:])
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.add_pending(record(1, "run-1"), twice)
    assert store.checkpoint(PIPELINE, 1) is None


def test_a_checkpoint_expects_as_many_subtasks_as_it_says(store: CheckpointStore) -> None:
    with pytest.raises(ValueError, match="2 subtasks"), store.transaction(PIPELINE) as transaction:
        transaction.add_pending(record(1, "run-1"), SUBTASKS[:2])


def test_another_pipelines_checkpoint_is_refused(store: CheckpointStore) -> None:
    with pytest.raises(ValueError, match="weather"), store.transaction(PIPELINE) as transaction:
        transaction.add_pending(record(1, "run-1", "weather"), SUBTASKS)


def test_an_error_rolls_everything_of_the_transaction_back(store: CheckpointStore) -> None:
    with pytest.raises(Crash):
        crash_after(store, lambda transaction: transaction.add_pending(record(1, "run-1"), SUBTASKS))
    assert store.pipelines() == []
    assert store.checkpoint(PIPELINE, 1) is None
    assert triggered(store) == 1


def test_a_write_that_was_refused_cannot_be_swallowed(store: CheckpointStore) -> None:
    triggered(store, "run-1")

    def swallow(transaction: StoreTransaction) -> None:
        transaction.fail(1, FailureReason.TASK_FAILURE, "gone", at(1))
        with suppress(Exception):
            transaction.add_pending(record(1, "run-2"), SUBTASKS)

    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        swallow(transaction)
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert kept.status is Status.IN_PROGRESS


def test_pipelines_and_history_are_listed(store: CheckpointStore) -> None:
    assert store.pipelines() == []
    for _ in range(3):
        triggered(store)
    triggered(store, pipeline_id="weather")
    assert store.pipelines() == [PIPELINE, "weather"]
    assert [c.checkpoint_id for c in store.history(PIPELINE, 2)] == [3, 2]
    assert store.history("unknown", 5) == []


def test_looking_at_a_pipeline_does_not_make_one(store: CheckpointStore) -> None:
    with store.transaction("unknown") as transaction:
        assert transaction.in_progress() == []
        assert transaction.latest_completed() is None
    assert store.pipelines() == []
