"""Which files are garbage: those that something referred to and nothing live does."""

import pytest
from store_steps import (
    FIRST,
    PIPELINE,
    SECOND,
    SINK,
    Crash,
    acknowledged,
    acknowledgement,
    at,
    completed,
    crash_after,
    delete_everything,
    fail_checkpoint,
    handle,
    metadata,
    on_storage,
    pending,
    status,
    triggered,
)

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CompactedRun, Deletion, HandleKind

STAGED = Deletion("sink:carriers-sink", "staged")


def staged(created_by: int):
    return handle("staged", created_by, HandleKind.STAGED)


def test_nothing_of_a_completed_checkpoint_is_garbage(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("run", 1)], SINK: [staged(1)]})
    assert pending(store) == set()


def test_a_failed_checkpoint_leaves_its_files_to_their_owners(store: CheckpointStore) -> None:
    acknowledged(store, {FIRST: [handle("run", 1)], SINK: [staged(1)]})
    fail_checkpoint(store, 1)
    assert pending(store) == on_storage("run") | {STAGED}


def test_a_failed_checkpoint_leaves_what_it_carried_from_a_completed_one(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("old", 1)]})
    acknowledged(store, {FIRST: [handle("old", 1), handle("new", 2)]})
    fail_checkpoint(store, 2)
    assert pending(store) == on_storage("new")


def test_a_subsumed_checkpoint_leaves_its_metadata_and_what_the_newer_one_did_not_carry(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("carried", 1), handle("compacted-away", 1)], SINK: [staged(1)]})
    completed(store, {FIRST: [handle("carried", 1), handle("merged", 2)]}, subsume=[1])
    assert pending(store) == on_storage("compacted-away", metadata(1)) | {STAGED}


def test_a_run_that_two_subtasks_share_lives_until_both_have_left_it(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("shared", 1)], SECOND: [handle("shared", 1)]})
    completed(store, {FIRST: [handle("shared", 1)]}, subsume=[1])
    assert pending(store) == on_storage(metadata(1))
    completed(store, subsume=[2])
    assert pending(store) == on_storage("shared", metadata(1), metadata(2))


def test_several_that_leave_together_leave_what_they_shared(store: CheckpointStore) -> None:
    for _ in range(2):
        completed(store, {FIRST: [handle("shared", 1)]})
    completed(store, subsume=[1, 2])
    assert pending(store) == on_storage("shared", metadata(1), metadata(2))


def test_a_checkpoint_in_progress_keeps_what_it_carries(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("run", 1)]})
    acknowledged(store, {FIRST: [handle("run", 1)]})
    with store.transaction(PIPELINE) as transaction:
        transaction.subsume([1])
    assert pending(store) == on_storage(metadata(1))
    fail_checkpoint(store, 2)
    assert pending(store) == on_storage("run", metadata(1))


def test_the_same_path_below_a_sink_is_another_file(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("staged", 1)]})
    acknowledged(store, {SINK: [staged(2)]})
    fail_checkpoint(store, 2)
    assert pending(store) == {STAGED}


def test_another_pipelines_files_are_not_looked_at(store: CheckpointStore) -> None:
    triggered(store, pipeline_id="weather")
    with store.transaction("weather") as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle("run", 1))], at(3))
    acknowledged(store, {FIRST: [handle("run", 1)]})
    fail_checkpoint(store, 1)
    assert pending(store) == on_storage("run")
    with store.transaction("weather") as transaction:
        assert transaction.pending_deletions(10) == []


def test_committed_rows_that_no_sink_was_notified_of_are_kept(store: CheckpointStore) -> None:
    completed(store, {SINK: [staged(1)]}, notified=False)
    completed(store, subsume=[1])
    assert pending(store) == on_storage(metadata(1))
    with store.transaction(PIPELINE) as transaction:
        assert transaction.live_paths(1) == {STAGED}
        assert transaction.mark_notified(1, transaction.begin_commit(at(60)), at(60))
    assert pending(store) == on_storage(metadata(1)) | {STAGED}


def test_live_paths_are_what_the_checkpoint_created_and_something_keeps(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("carried", 1), handle("left", 1)], SINK: [staged(1)]})
    completed(store, {FIRST: [handle("carried", 1), handle("new", 2)]}, subsume=[1])
    with store.transaction(PIPELINE) as transaction:
        assert transaction.live_paths(1) == on_storage("carried")
        assert transaction.live_paths(2) == on_storage("new", metadata(2))
        assert transaction.live_paths(3) == transaction.live_paths() == set()
        assert transaction.live_paths(1, 2, 3) == on_storage("carried", "new", metadata(2))


def test_exchanged_rows_live_as_long_as_their_checkpoint_is_in_progress(store: CheckpointStore) -> None:
    exchange = handle("exchange", 1, HandleKind.EXCHANGE)
    acknowledged(store, {FIRST: [exchange, handle("run", 1)]})
    with store.transaction(PIPELINE) as transaction:
        assert transaction.live_paths(1) == on_storage("exchange", "run")


def test_exchanged_rows_of_a_completed_checkpoint_are_not_live(store: CheckpointStore) -> None:
    exchange = handle("exchange", 1, HandleKind.EXCHANGE)
    completed(store, {FIRST: [exchange, handle("run", 1)]})
    with store.transaction(PIPELINE) as transaction:
        assert transaction.live_paths(1) == on_storage("run", metadata(1))


def test_what_an_unaligned_checkpoint_captured_is_live_as_long_as_the_checkpoint_is_retained(
    store: CheckpointStore,
) -> None:
    captured = handle("captured", 1, HandleKind.CHANNEL)
    completed(store, {FIRST: [captured, handle("run", 1)]})
    with store.transaction(PIPELINE) as transaction:
        assert transaction.live_paths(1) == on_storage("captured", "run", metadata(1))
    completed(store, {FIRST: [handle("run", 1)]}, subsume=[1])
    assert pending(store) == on_storage("captured", metadata(1))


def test_compacted_runs_are_read_back_oldest_first(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("a", 1), handle("b", 1)], SECOND: [handle("c", 1)]})
    runs = [CompactedRun(FIRST, handle("z", 1), ("a", "b")), CompactedRun(SECOND, handle("y", 1), ("c",))]
    for run in runs:
        with store.transaction(PIPELINE) as transaction:
            transaction.add_compactions([run])
    with store.transaction(PIPELINE) as transaction:
        transaction.add_compactions([])
        assert transaction.compactions() == runs
        assert transaction.live_paths(1) == on_storage("a", "b", "c", "y", "z", metadata(1))


def test_a_compacted_run_is_recorded_once(store: CheckpointStore) -> None:
    run = CompactedRun(FIRST, handle("merged", 1), ("a", "b"))
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.add_compactions([run, run])
    with store.transaction(PIPELINE) as transaction:
        assert transaction.compactions() == []


def test_a_compacted_run_that_no_checkpoint_took_over_is_garbage_when_forgotten(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("a", 1), handle("b", 1)]})
    with store.transaction(PIPELINE) as transaction:
        transaction.add_compactions([CompactedRun(FIRST, handle("merged", 1), ("a", "b"))])
        transaction.enqueue_deletions([Deletion("storage", "merged")])
        assert transaction.pending_deletions(10) == []
        transaction.remove_compactions(["merged", "never-there"])
    assert pending(store) == on_storage("merged")


def test_a_compacted_run_that_a_checkpoint_took_over_lives_on(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("a", 1), handle("b", 1)]})
    with store.transaction(PIPELINE) as transaction:
        transaction.add_compactions([CompactedRun(FIRST, handle("merged", 1), ("a", "b"))])
    completed(store, {FIRST: [handle("merged", 1)]}, subsume=[1])
    with store.transaction(PIPELINE) as transaction:
        transaction.remove_compactions(["merged"])
        assert transaction.compactions() == []
    assert pending(store) == on_storage("a", "b", metadata(1))


def test_deletions_are_given_out_oldest_first_and_only_so_many(store: CheckpointStore) -> None:
    files = [Deletion("storage", name) for name in ("z", "a", "m")]
    with store.transaction(PIPELINE) as transaction:
        transaction.enqueue_deletions(files[:1])
        transaction.enqueue_deletions(files)
        transaction.enqueue_deletions([])
    with store.transaction(PIPELINE) as transaction:
        assert transaction.pending_deletions(2) == files[:2]
        transaction.remove_deletions([files[0], Deletion("storage", "never-there")])
        transaction.remove_deletions([])
        assert transaction.pending_deletions(10) == files[1:]


def test_a_queued_file_that_something_refers_to_again_is_held_back(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as transaction:
        transaction.enqueue_deletions([Deletion("storage", "run"), Deletion("storage", "other")])
    completed(store, {FIRST: [handle("run", 1)]})
    assert pending(store) == on_storage("other")


@pytest.mark.parametrize("deletion", [Deletion("storage", "../x"), Deletion("nobody", "x"), Deletion("storage", "/x")])
def test_a_deletion_outside_its_root_or_without_owner_is_refused(store: CheckpointStore, deletion: Deletion) -> None:
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.enqueue_deletions([deletion])
    assert pending(store) == set()


def test_garbage_of_a_transaction_that_fails_is_not_queued(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("run", 1)]})
    with pytest.raises(Crash):
        crash_after(store, lambda transaction: transaction.subsume([1]))
    assert pending(store) == set()
    assert status(store, 1) is Status.COMPLETED


def test_a_subsumed_checkpoint_is_discarded_once_its_files_are_gone(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("carried", 1), handle("left", 1)]})
    completed(store, {FIRST: [handle("carried", 1)]}, subsume=[1])
    with store.transaction(PIPELINE) as transaction:
        transaction.mark_discarded()
    assert status(store, 1) is Status.SUBSUMED
    with store.transaction(PIPELINE) as transaction:
        transaction.remove_deletions([Deletion("storage", "left")])
        transaction.mark_discarded()
    assert status(store, 1) is Status.SUBSUMED
    delete_everything(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.mark_discarded()
    assert (status(store, 1), status(store, 2)) == (Status.DISCARDED, Status.COMPLETED)


def test_files_that_are_gone_leave_the_queue_before_it_is_asked_whose_are_left(store: CheckpointStore) -> None:
    completed(store, {FIRST: [handle("left", 1)]})
    completed(store, subsume=[1])
    with store.transaction(PIPELINE) as transaction:
        transaction.mark_discarded([Deletion("storage", "left"), Deletion("storage", "never-there")])
        assert set(transaction.pending_deletions(10)) == on_storage(metadata(1))
    assert status(store, 1) is Status.SUBSUMED
    with store.transaction(PIPELINE) as transaction:
        transaction.mark_discarded([Deletion("storage", metadata(1))])
        assert transaction.pending_deletions(10) == []
    assert status(store, 1) is Status.DISCARDED


def test_files_of_one_subsumed_checkpoint_do_not_hold_up_another(store: CheckpointStore) -> None:
    for _ in range(2):
        completed(store)
    completed(store, subsume=[1, 2])
    with store.transaction(PIPELINE) as transaction:
        transaction.remove_deletions([Deletion("storage", metadata(1))])
        transaction.mark_discarded()
    assert (status(store, 1), status(store, 2)) == (Status.DISCARDED, Status.SUBSUMED)


def test_ended_checkpoints_are_swept_once(store: CheckpointStore) -> None:
    completed(store)
    acknowledged(store)
    fail_checkpoint(store, 2)
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.unswept() == {1: at(30), 2: at(50)}
        transaction.mark_swept([1])
        transaction.mark_swept([])
        assert list(transaction.unswept()) == [2]
    completed(store, checkpoint_id=3, subsume=[1])
    with store.transaction(PIPELINE) as transaction:
        assert list(transaction.unswept()) == [2, 3]


def test_a_checkpoint_in_progress_cannot_be_swept(store: CheckpointStore) -> None:
    triggered(store)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.mark_swept([1])
