"""The queue of deletions, on every store: what a region shares leaves it only once nobody can use it."""

import pytest
from records import at
from store_steps import (
    FIRST,
    PIPELINE,
    acknowledged,
    acknowledgement,
    completed,
    fail_checkpoint,
    handle,
    metadata,
    on_storage,
    pending,
    triggered,
)

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.records import (
    CompactedRun,
    Deletion,
    HandleKind,
)

MINE = f"{PIPELINE}/shared/1/run"
CHK = f"{PIPELINE}/chk-1/run"


def begin_region(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as tx:
        tx.begin_region(at(0))


def aborted(store: CheckpointStore, *paths: str) -> int:
    """A checkpoint that failed after everybody had acknowledged."""
    id_ = triggered(store)
    acknowledged(store, {FIRST: [handle(path, id_) for path in paths]}, id_)
    fail_checkpoint(store, id_)
    return id_


def test_shared_files_of_an_aborted_checkpoint_stay_and_others_go(store: CheckpointStore) -> None:
    begin_region(store)
    aborted(store, MINE, CHK)
    assert pending(store) == on_storage(CHK)


def test_the_next_completed_checkpoint_keeps_those_it_refers_to_and_lets_the_others_go(store: CheckpointStore) -> None:
    begin_region(store)
    aborted(store, MINE, MINE + "-2")
    completed(store, {FIRST: [handle(MINE, 1)]})
    assert pending(store) == on_storage(MINE + "-2")
    completed(store, subsume=[2])
    assert pending(store) == on_storage(MINE, MINE + "-2", metadata(2))


def test_a_checkpoint_that_only_is_in_progress_or_fails_too_lets_nothing_go(store: CheckpointStore) -> None:
    begin_region(store)
    aborted(store, MINE)
    id_ = acknowledged(store)
    assert pending(store) == set()
    fail_checkpoint(store, id_)
    assert pending(store) == set()


def test_an_older_checkpoint_that_completes_later_lets_nothing_go(store: CheckpointStore) -> None:
    begin_region(store)
    older = triggered(store)
    aborted(store, MINE)
    completed(store, checkpoint_id=older)
    assert pending(store) == set()


def test_what_leaves_a_completed_checkpoint_goes_at_once(store: CheckpointStore) -> None:
    begin_region(store)
    completed(store, {FIRST: [handle(MINE, 1)]})
    completed(store, subsume=[1])
    with store.transaction(PIPELINE) as tx:
        tx.add_compactions([CompactedRun(FIRST, handle(MINE + "-merged", 2), ("a", "b"))])
        tx.remove_compactions([MINE + "-merged"])
    assert pending(store) == on_storage(MINE, MINE + "-merged", metadata(1))


@pytest.mark.parametrize("how", ["ended", "overtaken"])
def test_when_the_region_is_gone_so_are_they(store: CheckpointStore, how: str) -> None:
    begin_region(store)
    aborted(store, MINE)
    with store.transaction(PIPELINE) as tx:
        tx.begin_region(at(60)) if how == "overtaken" else tx.end_region(1, at(60))
    assert pending(store) == on_storage(MINE)


def test_files_of_an_older_attempt_or_of_a_sink_are_not_held_back(store: CheckpointStore) -> None:
    begin_region(store)
    begin_region(store)
    paths = [MINE, f"{PIPELINE}/shared/20/run", f"{PIPELINE}/shared/2"]
    aborted(store, *paths)
    with store.transaction(PIPELINE) as tx:
        tx.enqueue_deletions([Deletion("sink:carriers-sink", f"{PIPELINE}/shared/2/staged")], 1)
    assert pending(store) == on_storage(*paths) | {Deletion("sink:carriers-sink", f"{PIPELINE}/shared/2/staged")}


def test_reports_that_do_not_count_give_their_files_up_likewise(store: CheckpointStore) -> None:
    begin_region(store)
    with store.transaction(PIPELINE) as tx:
        tx.enqueue_deletions([Deletion("storage", MINE), Deletion("storage", CHK)], 1)
    assert pending(store) == on_storage(CHK)
    completed(store)
    assert pending(store) == on_storage(CHK)  # it may be the checkpoint they were reported for
    completed(store)
    assert pending(store) == on_storage(CHK, MINE)


def test_what_was_let_go_before_stays_so(store: CheckpointStore) -> None:
    begin_region(store)
    with store.transaction(PIPELINE) as tx:
        tx.enqueue_deletions([Deletion("storage", MINE)])
        tx.enqueue_deletions([Deletion("storage", MINE)], 1)
    assert pending(store) == on_storage(MINE)


def test_what_is_live_below_a_directory(store: CheckpointStore) -> None:
    staged = handle(f"{PIPELINE}/shared/1/staged", 1, HandleKind.STAGED)
    completed(store, {FIRST: [handle(MINE, 1), handle(f"{PIPELINE}/shared-not/x", 1), handle(CHK, 1), staged]})
    with store.transaction(PIPELINE) as tx:
        tx.add_compactions([CompactedRun(FIRST, handle(MINE + "-merged", 1), ("a", "b"))])
        assert tx.live_below(f"{PIPELINE}/shared") == on_storage(MINE, MINE + "-merged")
        assert tx.live_below(f"{PIPELINE}/shared/2") == set()
        assert tx.live_below(f"{PIPELINE}/shared%") == set()
    with store.transaction("weather") as tx:
        assert tx.live_below(f"{PIPELINE}/shared") == set()


def test_acknowledgements_name_shared_files_like_any_other(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as tx:
        tx.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle(MINE, 1))], at(3))
        assert tx.live_below(f"{PIPELINE}/shared/1") == on_storage(MINE)
