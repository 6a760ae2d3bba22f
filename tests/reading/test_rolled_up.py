"""What pages and `stats` say of checkpoints is the same after they were rolled up."""

from unittest.mock import patch

import pytest
from sqlalchemy import text
from store_steps import (
    FIRST,
    PIPELINE,
    SECOND,
    SINK,
    acknowledged,
    at,
    completed,
    delete_everything,
    fail_checkpoint,
    handle,
    metadata,
    triggered,
    validated,
)

from tidegate.postgres import rollup
from tidegate.protocol.facts.errors import RecordRefusedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import HandleKind


@pytest.fixture
def past(pages, store):
    """Checkpoints 1 and 2 are discarded, 3 and 4 have failed, one of them while it was acknowledged; 5 is retained."""
    old, staged = handle("flights/chk-1/a", 1), handle("chk-2/s", 2, HandleKind.STAGED)
    completed(store, {FIRST: [old]})
    validated(store, {FIRST: [old, handle("flights/chk-2/b", 2)], SECOND: [old], SINK: [staged]})
    with store.transaction(PIPELINE) as tx:
        assert tx.complete(2, at(35), metadata(2), 9000, 77)
        tx.subsume([1])
        tx.mark_notified(2, tx.begin_commit(at(40)), at(40))
    triggered(store)
    fail_checkpoint(store, 3)
    acknowledged(store, {FIRST: [old]})
    fail_checkpoint(store, 4)
    completed(store, {FIRST: [handle("flights/chk-5/c", 5)]}, subsume=[2])
    delete_everything(store)
    with store.transaction(PIPELINE) as tx:
        tx.mark_discarded()
    return pages().readings


def said(readings):
    """All that can be said without subtasks."""
    same = {"folded": False, "now": None}
    found = [readings.checkpoint(PIPELINE, id_).model_copy(update=same) for id_ in range(1, 6)]
    return found, readings.history(PIPELINE), readings.summary(PIPELINE), readings.series(PIPELINE)


def roll_up(store, *checkpoint_ids):
    with store.transaction(PIPELINE) as tx:
        tx.roll_up(checkpoint_ids)


def test_pages_say_the_same_as_before(past, store):
    before = said(past)
    roll_up(store, 1, 3)
    assert said(past) == before
    roll_up(store, 2, 4)
    assert said(past) == before
    assert [past.checkpoint(PIPELINE, id_).folded for id_ in range(1, 6)] == [True, True, True, True, False]
    assert past.summary(PIPELINE).counts.total == 5
    assert store.figures(PIPELINE).by_status == {Status.DISCARDED: 2, Status.FAILED: 2, Status.COMPLETED: 1}


def test_subtasks_and_files_of_a_rolled_up_checkpoint_are_none(past, store):
    roll_up(store, 1, 2, 3, 4)
    assert [task.subtasks for task in past.whole_checkpoint(PIPELINE, 2).tasks.values()] == [(), ()]
    assert past.subtasks(PIPELINE, 2, "carriers").subtasks == ()
    assert past.files(PIPELINE, 2).files == ()
    assert past.checkpoint(PIPELINE, 2).tasks["carriers"].files == 2


def test_the_statistics_of_checkpoints_are_counted_once(past, store):
    for _ in range(3):
        roll_up(store, 1, 2)
    with store.transaction(PIPELINE) as tx:
        tx.roll_up([2, 3])
    counts = past.summary(PIPELINE).counts
    assert (counts.total, counts.completed, counts.failed) == (5, 3, 2)


ADD_UP, ROLL_UP_OPERATORS = rollup._ADD_UP.text, rollup._ROLL_UP_OPERATORS.text
LOST = {
    "figures are left out": ("_ADD_UP", "SELECT :pipeline_id, CAST(:checkpoint_ids AS bigint[])"),
    "the largest is forgotten": ("_ADD_UP", ADD_UP.replace("max(f.state_size)", "min(f.state_size)")),
    "averages are those of the last portion": ("_ADD_UP", ADD_UP.replace("a + b", "b")),
    "failed ones are not counted": ("_ADD_UP", ADD_UP.replace("t.failed + ", "")),
    "spreads are of all subtasks": ("_ROLL_UP_OPERATORS", ROLL_UP_OPERATORS.replace("nullif(rows_in, -1)", "0")),
    "one operator is forgotten": ("_ROLL_UP_OPERATORS", ROLL_UP_OPERATORS + "HAVING operator_id <> 'carriers'"),
}


def portions_say_the_same(readings, store):
    before = said(readings)
    for portion in ((1, 2), (3,), (4,)):
        roll_up(store, *portion)
    assert said(readings) == before


def test_portions_add_up(past, store):
    portions_say_the_same(past, store)


@pytest.mark.parametrize("mistake", LOST)
def test_a_mistake_is_noticed(mistake, past, store):
    """By the test above, or the database refuses it."""
    name, statement = LOST[mistake]
    with patch.object(rollup, name, text(statement)), pytest.raises((AssertionError, RecordRefusedError)):
        portions_say_the_same(past, store)
