"""Attempts and acknowledgements: what counts, what does not, and what is kept of it."""

from dataclasses import replace

import pytest
from store_steps import (
    FIRST,
    PIPELINE,
    SECOND,
    SINK,
    SOURCE,
    SUBTASKS,
    Crash,
    acknowledged,
    acknowledgement,
    at,
    crash_after,
    fail_checkpoint,
    handle,
    on_storage,
    pending,
    record,
    triggered,
)

from tidegate.ports import CheckpointStore, StoreTransaction
from tidegate.protocol.facts.errors import CheckpointError, CheckpointNotFoundError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, SubtaskId, SubtaskMetrics

FULL = Acknowledgement(
    FIRST,
    1,
    Snapshot(
        (
            handle("flights/chk-1/carriers/0-1-x.parquet", 1),
            replace(handle("flights/chk-1/carriers/0-1-y.parquet", 1), key_groups=KeyGroupRange(3, 3), details={}),
            handle("flights/chk-1/carriers/0-1-e.parquet", 1, HandleKind.EXCHANGE),
        ),
        {"offset": 7, "lane": 'a "quoted" \\ {path}, ünïcode\n', "nested": {"list": [1, None, 2.5]}},
    ),
    SubtaskMetrics(1, 2, 3, 4, 5, 6, 7, 8),
)


def test_every_field_of_an_acknowledgement_is_read_back(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.record_acknowledgements(1, [FULL], at(3)) == 3
    kept = store.subtasks(PIPELINE, 1)[FIRST]
    assert (kept.snapshot, kept.metrics) == (FULL.snapshot, FULL.metrics)
    assert (kept.attempt, kept.acknowledged_at) == (1, at(3))


def test_the_order_of_handles_is_kept(store: CheckpointStore) -> None:
    triggered(store)
    handles = [handle(f"run-{number}", 1) for number in (5, 3, 9, 1, 7)]
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, *handles)], at(3))
        assert transaction.subtasks(1)[FIRST].snapshot.handles == tuple(handles)


def test_the_number_left_counts_down_and_is_kept_with_the_checkpoint(store: CheckpointStore) -> None:
    triggered(store)
    for left, subtask in zip((3, 2, 1, 0), SUBTASKS, strict=True):
        with store.transaction(PIPELINE) as transaction:
            assert transaction.record_acknowledgements(1, [acknowledgement(subtask, 1)], at(3)) == left
        kept = store.checkpoint(PIPELINE, 1)
        assert kept is not None
        assert kept.num_acknowledged == 4 - left


def test_the_last_acknowledgement_moves_the_checkpoint_on_if_it_is_to(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        reports = [acknowledgement(subtask, 1) for subtask in SUBTASKS]
        assert transaction.record_acknowledgements(1, reports[:3], at(3), moves=True) == 1
        assert _phase(transaction) is Phase.TRIGGERED
        assert transaction.record_acknowledgements(1, reports[3:], at(4)) == 0
        assert _phase(transaction) is Phase.TRIGGERED
        assert transaction.record_acknowledgements(1, [], at(5), moves=True) == 0
        assert _phase(transaction) is Phase.ACKNOWLEDGED
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.phase, kept.acknowledged_at) == (Phase.ACKNOWLEDGED, at(5))
    with store.transaction(PIPELINE) as transaction:
        assert transaction.record_acknowledgements(1, [], at(6), moves=True) == 0
    assert store.checkpoint(PIPELINE, 1) == kept


def test_what_has_ended_is_not_moved_on_by_acknowledgements(store: CheckpointStore) -> None:
    triggered(store)
    fail_checkpoint(store, 1)
    failed = store.checkpoint(PIPELINE, 1)
    with store.transaction(PIPELINE) as transaction:
        reports = [acknowledgement(subtask, 1) for subtask in SUBTASKS]
        assert transaction.record_acknowledgements(1, reports, at(60), moves=True) == 4
    assert store.checkpoint(PIPELINE, 1) == failed


def _phase(transaction: StoreTransaction) -> Phase:
    record = transaction.checkpoint(1)
    assert record is not None
    return record.phase


def test_no_acknowledgements_change_nothing(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.record_acknowledgements(1, [], at(3)) == 4


def test_the_first_acknowledgement_of_a_subtask_stays(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle("first", 1))], at(3))
        again = [acknowledgement(FIRST, 1, handle("second", 1)), acknowledgement(SECOND, 1)]
        assert transaction.record_acknowledgements(1, again, at(4)) == 2
    kept = store.subtasks(PIPELINE, 1)[FIRST]
    assert kept.snapshot.handles == (handle("first", 1),)
    assert kept.acknowledged_at == at(3)


def test_of_two_acknowledgements_in_one_batch_the_first_counts(store: CheckpointStore) -> None:
    triggered(store)
    both = [acknowledgement(FIRST, 1, handle("first", 1)), acknowledgement(FIRST, 1, handle("second", 1))]
    with store.transaction(PIPELINE) as transaction:
        assert transaction.record_acknowledgements(1, both, at(3)) == 3
    assert store.subtasks(PIPELINE, 1)[FIRST].snapshot.handles == (handle("first", 1),)


@pytest.mark.parametrize("subtask", [SubtaskId("carriers", 2), SubtaskId("unknown", 0)])
def test_a_subtask_that_is_not_expected_changes_nothing(store: CheckpointStore, subtask: SubtaskId) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.record_acknowledgements(1, [acknowledgement(subtask, 1, handle("x", 1))], at(3)) == 4
    assert set(store.subtasks(PIPELINE, 1)) == set(SUBTASKS)


@pytest.mark.parametrize("attempt", [1, 3])
def test_only_the_current_attempt_counts(store: CheckpointStore, attempt: int) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.begin_attempt(1) == 2
        assert transaction.record_acknowledgements(1, [acknowledgement(FIRST, attempt, handle("x", 1))], at(3)) == 4
        assert transaction.record_acknowledgements(1, [acknowledgement(FIRST, 2, handle("y", 1))], at(3)) == 3
    assert store.subtasks(PIPELINE, 1)[FIRST].snapshot.handles == (handle("y", 1),)


def test_a_new_attempt_is_only_for_those_that_have_not_acknowledged(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1)], at(3))
        assert transaction.begin_attempt(1) == 2
        assert transaction.begin_attempt(1) == 3
    attempts = {subtask: kept.attempt for subtask, kept in store.subtasks(PIPELINE, 1).items()}
    assert attempts == {FIRST: 1, SECOND: 3, SINK: 3, SOURCE: 3}


def test_without_anybody_left_to_ask_the_attempt_stays(store: CheckpointStore) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.begin_attempt(1) == 1
    assert {kept.attempt for kept in store.subtasks(PIPELINE, 1).values()} == {1}


def test_an_ended_checkpoint_takes_no_acknowledgement_and_no_attempt(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.fail(1, FailureReason.CHECKPOINT_EXPIRED, "late", at(700))
        assert transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle("x", 1))], at(701)) == 4
        assert transaction.begin_attempt(1) == 1
    assert store.subtasks(PIPELINE, 1)[FIRST].acknowledged_at is None


def test_an_unknown_checkpoint_is_an_error(store: CheckpointStore) -> None:
    with pytest.raises(CheckpointNotFoundError), store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(9, [acknowledgement(FIRST, 1)], at(3))
    with pytest.raises(CheckpointNotFoundError), store.transaction(PIPELINE) as transaction:
        transaction.begin_attempt(9)


def test_subtasks_can_be_asked_for_by_name(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [FULL], at(3))
        found = transaction.subtasks(1, [FIRST, SOURCE, SubtaskId("unknown", 0)])
        assert set(found) == {FIRST, SOURCE}
        assert found[FIRST].snapshot == FULL.snapshot
        assert transaction.subtasks(1, []) == {}


def test_a_subtask_asked_for_twice_is_found_once_with_its_handles_in_order(store: CheckpointStore) -> None:
    triggered(store)
    handles = [handle(f"run-{number}", 1) for number in (5, 3, 9, 1, 7)]
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, *handles)], at(3))
        found = transaction.subtasks(1, [SECOND, FIRST, SECOND, FIRST])
    assert list(found) == [FIRST, SECOND]
    assert found[FIRST].snapshot.handles == tuple(handles)


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../elsewhere", "flights/../../elsewhere", ".."])
def test_a_path_outside_its_root_is_refused(store: CheckpointStore, path: str) -> None:
    triggered(store)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle(path, 1))], at(3))
    assert store.subtasks(PIPELINE, 1)[FIRST].acknowledged_at is None


def test_a_path_with_a_nul_character_is_refused(store: CheckpointStore) -> None:
    triggered(store)
    with pytest.raises(ValueError, match="NUL"), store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle("a\0b", 1))], at(3))


def test_dots_within_a_name_are_fine(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        dotted = handle("flights/..chk-1/a..b", 1)
        assert transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, dotted)], at(3)) == 3


def test_a_handle_cannot_be_of_a_later_checkpoint(store: CheckpointStore) -> None:
    triggered(store)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle("x", 2))], at(3))


def test_acknowledgements_of_a_transaction_that_fails_are_not_kept(store: CheckpointStore) -> None:
    triggered(store)
    with pytest.raises(Crash):
        crash_after(store, lambda transaction: transaction.record_acknowledgements(1, [FULL], at(3)))
    assert store.subtasks(PIPELINE, 1)[FIRST].acknowledged_at is None
    assert store.subtasks(PIPELINE, 1)[FIRST].snapshot == Snapshot()


def test_what_an_aborted_checkpoint_acknowledged_becomes_garbage(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(FIRST, 1, handle("run", 1))], at(3))
        transaction.fail(1, FailureReason.CHECKPOINT_DECLINED, "no", at(4))
    assert pending(store) == on_storage("run")


def test_ten_thousand_acknowledgements_are_one_batch(store: CheckpointStore) -> None:
    subtasks = [SubtaskId("wide", index) for index in range(10_000)]
    with store.transaction("wide") as transaction:
        wide = replace(record(1, "run-1", "wide"), num_subtasks=len(subtasks))
        transaction.add_pending(wide, subtasks)
        transaction.begin_attempt(1)
        reports = [acknowledgement(subtask, 1, handle(f"run-{subtask.subtask_index}", 1)) for subtask in subtasks]
        assert transaction.record_acknowledgements(1, reports, at(3)) == 0
    kept = store.subtasks("wide", 1)
    assert [kept[subtask].snapshot.handles[0].path for subtask in subtasks] == [f"run-{i}" for i in range(10_000)]
