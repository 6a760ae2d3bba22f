"""The list of all pipelines: what needs somebody first, and only what the user may read."""

from datetime import timedelta

import pytest
from readings import HOSTILE
from store_steps import PIPELINE, at, completed, fail_checkpoint, triggered

from tidegate.protocol.facts.errors import IllegalRequestError
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.observing.lag import SourceLag
from tidegate.reading.lag_answers import Lag
from tidegate.reading.pipeline_answers import Need


def move(store, pipeline_id, *statuses):
    with store.transaction(pipeline_id) as tx:
        for status in statuses:
            tx.move_pipeline(status, at(0))


def seen_by(store, pipeline_id, dag_id):
    with store.transaction(pipeline_id) as tx:
        tx.record_dag(dag_id, at(1))


def test_what_needs_somebody_comes_first(pages, store):
    world = pages()
    world.clock.time = at(60)
    readings = world.readings
    for name in ("a-runs", "b-failed", "c-suspended", "d-done"):
        triggered(store, pipeline_id=name)
        move(store, name, PipelineStatus.RUNNING)
    move(store, "b-failed", PipelineStatus.FAILED)
    move(store, "c-suspended", PipelineStatus.SUSPENDED)
    move(store, "d-done", PipelineStatus.FINISHED)
    fail_checkpoint(store, triggered(store))  # of `flights`
    found = readings.pipelines()
    assert [(line.pipeline_id, line.need) for line in found.lines] == [
        ("b-failed", Need.RESUME),
        (PIPELINE, Need.LOOK),
        ("a-runs", Need.NOTHING),
        ("c-suspended", Need.WAITS),
        ("d-done", Need.ENDED),
    ]
    assert (found.total, found.next_key) == (5, None)
    failing = found.lines[1]
    assert (failing.failures_in_a_row, failing.last_failure, failing.latest_completed) == (1, "TASK_FAILURE", None)


def test_the_lag_is_that_of_all_sources_by_what_they_count_in(pages, store):
    readings = pages().readings
    completed(store)
    assert readings.pipelines().lines[0].lag == ()
    with store.transaction(PIPELINE) as tx:
        tx.record_lag(
            [
                SourceLag("a", 3, "files", 30, at(5)),
                SourceLag("b", 4, "files", 40, at(2)),
                SourceLag("source", 10**12, "offsets", -1, at(9)),
            ]
        )
    (line,) = readings.pipelines().lines
    assert line.lag == (
        Lag(pending=7, unit="files", bytes=70, polled_at=at(2)),
        Lag(pending=10**12, unit="offsets", bytes=-1, polled_at=at(9)),
    )
    assert readings.overview(PIPELINE).line.lag == line.lag


def test_one_that_is_overdue_or_not_delivered_needs_a_look(pages, store):
    world = pages()
    completed(store, notified=False)
    move(store, PIPELINE, PipelineStatus.RUNNING)
    world.clock.time = at(35)
    (line,) = world.readings.pipelines().lines
    assert (line.need, line.in_doubt, line.age, line.state_size) == (Need.NOTHING, 1, 5_000, 4000)
    world.clock.time = at(30) + timedelta(minutes=2)
    (line,) = world.readings.pipelines().lines
    assert line.need is Need.DELIVERY
    triggered(store)
    world.clock.time = at(601)
    (line,) = world.readings.pipelines().lines
    assert (line.need, line.in_progress, line.overdue) == (Need.LOOK, 1, 1)


def test_what_all_sinks_have_shown_in_the_commit_is_not_in_doubt(pages, store):
    world = pages()
    completed(store, notified=False, committed=["carriers-sink"])
    world.clock.time = at(30) + timedelta(minutes=2)
    (line,) = world.readings.pipelines().lines
    assert (line.in_doubt, line.need is Need.DELIVERY) == (0, False)


def test_failures_before_the_last_success_or_resume_do_not_count(pages, store):
    readings = pages().readings
    fail_checkpoint(store, triggered(store))
    completed(store)
    fail_checkpoint(store, triggered(store))
    fail_checkpoint(store, triggered(store))
    assert readings.pipelines().lines[0].failures_in_a_row == 2
    with store.transaction(PIPELINE) as tx:
        tx.move_pipeline(PipelineStatus.SUSPENDED, at(60))
        tx.move_pipeline(PipelineStatus.RUNNING, at(61), None, 4)
    assert readings.pipelines().lines[0].failures_in_a_row == 0


def test_the_verdict_is_that_of_the_newest_checkpoint_that_was_judged(pages):
    world = pages()
    world.take("r1")
    world.ask("r2")
    (line,) = world.readings.pipelines().lines
    assert (line.last_verdict, line.validated_checkpoint, line.latest_completed) == (True, 1, 1)


def test_only_pipelines_of_readable_dags_and_those_without_one(pages, store):
    readings = pages().readings
    for name in ("mine", "theirs", "both", "nobodys"):
        triggered(store, pipeline_id=name)
    seen_by(store, "mine", "my-dag")
    seen_by(store, "theirs", "their-dag")
    seen_by(store, "both", "their-dag")
    seen_by(store, "both", "my-dag")

    def listed(readable):
        found = readings.pipelines(readable)
        assert found.total == len(found.lines)
        return {line.pipeline_id for line in found.lines}

    assert listed(frozenset({"my-dag"})) == {"mine", "both", "nobodys"}
    assert listed(frozenset()) == {"nobodys"}
    assert listed(None) == {"mine", "theirs", "both", "nobodys"}
    assert readings.dags("both") == ("my-dag", "their-dag")
    assert readings.pipelines_of_dag("their-dag") == ("both", "theirs")
    assert readings.all_dags() == ("my-dag", "their-dag")


def test_pages_by_key(pages, store):
    readings = pages().readings
    names = [f"p{number}" for number in range(7)]
    for name in names:
        triggered(store, pipeline_id=name)
    key, seen = None, []
    while True:
        page = readings.pipelines(after=key, limit=3)
        seen += [line.pipeline_id for line in page.lines]
        assert page.total == 7
        if (key := page.next_key) is None:
            break
    assert seen == names
    beyond = readings.pipelines(after=f"{Need.ENDED:d}:zzz")
    assert (beyond.lines, beyond.total) == ((), 7)


@pytest.mark.parametrize("key", ["", "x", "9:p", "1:", "1:p\0", ":p", "-1:p"])
def test_a_place_that_is_none_is_refused(pages, key):
    with pytest.raises(IllegalRequestError, match="not a position in the list"):
        pages().readings.pipelines(after=key)


def test_names_are_text_and_nothing_else(pages, store):
    readings = pages().readings
    triggered(store, pipeline_id=HOSTILE)
    seen_by(store, HOSTILE, HOSTILE)
    (line,) = readings.pipelines(frozenset({HOSTILE}), text=HOSTILE[:20].upper()).lines
    assert (line.pipeline_id, line.dags) == (HOSTILE, (HOSTILE,))
    assert readings.overview(HOSTILE).line == line
    assert [row.id for row in readings.history(HOSTILE).history] == [1]
    assert readings.pipelines(text="nothing").lines == ()
