"""An operator's state is found by names, on every store. If it is not there, the error says what is."""

import pytest
from store_steps import FIRST, PIPELINE, SECOND, SUBTASKS, completed, fail_checkpoint, handle, record, triggered

from tidegate.coordination.recovery.operator_state import find_earlier_state, find_history, find_state
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    ConfigurationError,
    OperatorNotFoundError,
    PipelineNotFoundError,
)
from tidegate.protocol.facts.records import CheckpointKind, HandleKind
from tidegate.protocol.schema.operator_state import OperatorState, choose_history, choose_kept


def two_checkpoints(store: CheckpointStore, subsume: tuple[int, ...] = ()) -> None:
    old, staged = handle("a", 1), handle("s", 1, HandleKind.STAGED)
    completed(store, {FIRST: [old, staged]})
    completed(store, {FIRST: [old], SECOND: [handle("b", 2)]}, subsume=subsume)


def test_the_runs_of_the_latest_checkpoint_or_of_the_one_that_is_named(store: CheckpointStore) -> None:
    two_checkpoints(store)
    latest = find_state(store, PIPELINE, "carriers")
    assert latest == OperatorState(
        PIPELINE, "carriers", 2, 128, ((handle("a", 1),), (handle("b", 2),)), latest.triggered_at
    )
    assert OperatorState.from_json(latest.to_json()) == latest
    assert find_state(store, PIPELINE, "carriers", 2) == latest
    first = find_state(store, PIPELINE, "carriers", 1)
    assert (first.checkpoint_id, [run.path for run in first.runs]) == (1, ["a"])
    assert find_earlier_state(store, latest, 1) == first
    assert [record.checkpoint_id for record in find_history(store, PIPELINE)] == [1, 2]


def test_what_was_left_behind_is_read_only_if_it_is_named(store: CheckpointStore) -> None:
    """Each checkpoint that is still COMPLETED has its files."""
    two_checkpoints(store)
    kept = store.completed(PIPELINE)
    abandoned = [kept[0], kept[1].moved(abandoned_by=1)]
    assert choose_kept(PIPELINE, abandoned, None) == kept[0]
    assert choose_kept(PIPELINE, abandoned, 2).checkpoint_id == 2
    assert choose_history(abandoned) == [kept[0]]


def test_an_operator_without_state_at_the_earlier_checkpoint_had_none(store: CheckpointStore) -> None:
    completed(store)
    completed(store, {FIRST: [handle("a", 2)]})
    now = find_state(store, PIPELINE, "carriers")
    assert find_earlier_state(store, now, 1).subtasks == ()


@pytest.mark.parametrize(
    ("names", "error", "said"),
    [
        (("flight", "carriers"), PipelineNotFoundError, "of a pipeline 'flight' was ever requested"),
        ((PIPELINE, "carriers", 9), CheckpointNotFoundError, "has no checkpoint 9. Those whose state is kept: 2"),
        ((PIPELINE, "carriers", 1), CheckpointNotRetainedError, "newer ones have replaced it"),
        ((PIPELINE, "carriers", 3), CheckpointNotRetainedError, "does not count, because it is FAILED"),
        ((PIPELINE, "carriers", 4), CheckpointNotRetainedError, "it is IN_PROGRESS. Those whose state is kept: 2"),
        ((PIPELINE, "airports"), OperatorNotFoundError, "no operator 'airports' at checkpoint 2 of pipeline flights"),
        ((PIPELINE, "source"), OperatorNotFoundError, "has no keyed state at checkpoint 2"),
        ((PIPELINE, "airports"), OperatorNotFoundError, "Those with keyed state: carriers."),
    ],
)  # fmt: skip
def test_what_cannot_be_found_is_told_what_there_is(names, error, said, store: CheckpointStore) -> None:
    two_checkpoints(store, subsume=(1,))
    fail_checkpoint(store, triggered(store))
    triggered(store)
    with pytest.raises(error) as refused:
        find_state(store, *names)
    assert said in str(refused.value)


def test_a_savepoint_is_found_by_its_name_or_number(store: CheckpointStore) -> None:
    two_checkpoints(store)
    with store.transaction(PIPELINE) as transaction:
        id_ = transaction.next_checkpoint_id()
        asked = record(id_, "audit").moved(kind=CheckpointKind.SAVEPOINT, name="audit")
        transaction.add_pending(asked, SUBTASKS)
        transaction.begin_attempt(id_)
    completed(store, {FIRST: [handle("c", 3)]}, id_)
    assert find_state(store, PIPELINE, "carriers", savepoint="audit").checkpoint_id == 3
    assert find_state(store, PIPELINE, "carriers", savepoint="3") == find_state(store, PIPELINE, "carriers", 3)
    with pytest.raises(CheckpointNotFoundError, match=r"has no savepoint '2' .* It has: audit"):
        find_state(store, PIPELINE, "carriers", savepoint="2")
    with pytest.raises(ConfigurationError, match="name a checkpoint or a savepoint, not both"):
        find_state(store, PIPELINE, "carriers", 3, "audit")


def test_a_pipeline_that_has_completed_nothing_has_no_state(store: CheckpointStore) -> None:
    triggered(store)
    with pytest.raises(CheckpointError, match="no completed checkpoint whose state is kept"):
        find_state(store, PIPELINE, "carriers")
    assert find_history(store, PIPELINE) == []
