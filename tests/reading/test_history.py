"""Pages of a history: every checkpoint once, whatever happens meanwhile; filters that say what they mean."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from readings import HOSTILE
from records import T0
from store_steps import PIPELINE, acknowledged, completed, fail_checkpoint, triggered

from tidegate.protocol.facts.errors import IllegalRequestError, PipelineNotFoundError
from tidegate.protocol.facts.names import requests_of_run
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.reading.checkpoint_answers import DagRun
from tidegate.reading.history_answers import HistoryFilter
from tidegate.reading.standing import Outlook, Standing


def ids(history):
    return [row.id for row in history.history]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limits=st.lists(st.integers(1, 5), min_size=30, max_size=30), arrivals=st.lists(st.booleans(), max_size=30))
def test_every_checkpoint_is_on_one_page_while_new_ones_arrive(pages, store, limits, arrivals):
    readings = pages().readings
    for _ in range(3):
        completed(store)
    last, before, seen = triggered(store), None, []
    for limit, arrives in zip(limits, arrivals + [False] * 30, strict=False):
        page = readings.history(PIPELINE, before=before, limit=limit)
        seen += ids(page)
        if page.next_before is None:
            break
        before = page.next_before
        if arrives:
            triggered(store)
    assert seen == list(range(last, max(0, last - len(seen)), -1))
    assert page.next_before is not None or seen[-1] == 1


def test_the_last_page_says_that_it_is_the_last(pages, store):
    readings = pages().readings
    for _ in range(4):
        triggered(store)
    first = readings.history(PIPELINE, limit=2)
    assert (ids(first), first.next_before) == ([4, 3], 3)
    second = readings.history(PIPELINE, before=3, limit=2)
    assert (ids(second), second.next_before) == ([2, 1], None)


def test_filters(pages, store):
    readings = pages().readings
    completed(store)  # 1
    completed(store, subsume=[1])  # 2
    fail_checkpoint(store, triggered(store))  # 3
    acknowledged(store)  # 4
    for statuses, expected in [
        ({"COMPLETED"}, [2, 1]),
        ({"SUBSUMED"}, [1]),
        ({"FAILED"}, [3]),
        ({"IN_PROGRESS"}, [4]),
        ({"FAILED", "IN_PROGRESS"}, [4, 3]),
        ({"HELD"}, []),
        ({"ABANDONED"}, []),
        ({"DISCARDED"}, []),
    ]:
        assert ids(readings.history(PIPELINE, HistoryFilter(statuses=frozenset(statuses)))) == expected, statuses
    with pytest.raises(IllegalRequestError, match=r"There is no status 'GONE'.*Give one of"):
        readings.history(PIPELINE, HistoryFilter(statuses=frozenset({"GONE"})))


def test_kinds_names_and_requests_are_found(pages):
    world = pages(retained=9)
    world.take("plain")
    world.clock.advance(60)
    saved = world.coordinator.trigger("asked", kind=CheckpointKind.SAVEPOINT, label=Label("before Monday", "a note"))
    world.complete(saved.checkpoint_id)
    world.take("dag/manual__1/20260101T000000.000000")

    def found(**wanted):
        return ids(world.readings.history("p", HistoryFilter(**wanted)))

    assert found(kinds=frozenset({CheckpointKind.SAVEPOINT})) == [2]
    assert found(kinds=frozenset({CheckpointKind.CHECKPOINT})) == [3, 1]
    assert found(kinds=frozenset(CheckpointKind)) == [3, 2, 1]
    assert found(text="BEFORE mon") == [2]
    assert found(text="manual__") == [3]
    assert found(text="plain") == [1]
    assert found(text="a note") == []
    for wild in ("%", "_lain", "\\", HOSTILE, "\0"):
        assert found(text=wild) == [], wild
    assert found(since=T0 + timedelta(minutes=2)) == [3, 2]
    assert found(until=T0 + timedelta(minutes=2)) == [1]


def test_a_row_says_who_asked_what_it_cost_and_how_it_was_judged(pages):
    world = pages()
    request = f"{requests_of_run('some.dag', 'scheduled__a/b')}20260101T000000.000000"
    world.take(request)
    (row,) = world.readings.history("p").history
    assert row.dag_run == DagRun(dag_id="some.dag", run_id="scheduled__a/b")
    assert row.verdict is True
    assert (row.processed_data, row.persisted_data) == (0, 0)
    assert row.standing == Standing("COMPLETED", Outlook.GOOD)


def test_figures_are_the_same_before_and_after_completion(pages, store):
    readings = pages().readings
    acknowledged(store)
    (before,) = readings.history(PIPELINE).history
    assert (before.rows_in, before.rows_out, before.alignment_duration) == (300, 0, -1)
    completed(store, checkpoint_id=triggered(store))
    after = readings.history(PIPELINE).history[0]
    assert after.completed_at is not None
    figures = [(each.rows_in, each.rows_out, each.processed_data, each.alignment_duration) for each in (before, after)]
    assert figures[0] == figures[1]


def test_a_pipeline_that_there_is_not(pages):
    with pytest.raises(PipelineNotFoundError, match="no pipeline 'nobody'"):
        pages().readings.history("nobody")
