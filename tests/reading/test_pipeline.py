"""A pipeline as a whole: graph, options, state, tables, quality, summary and series."""

import json
from datetime import timedelta

from records import T0
from store_steps import FIRST, PIPELINE, SECOND, SINK, at, completed, fail_checkpoint, handle, triggered

from tidegate.pipeline.config import CheckpointConfig
from tidegate.protocol.facts.records import HandleKind
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.reading.history_answers import SERIES, SUMMARIZED


def test_the_graph_is_that_of_the_latest_completed_checkpoint(pages):
    world = pages()
    world.take("dag/run/20260101T000000.000000")
    world.ask("r2")
    overview = world.readings.overview("p")
    graph = world.coordinator.graph
    assert overview.checkpoint_id == 1
    assert [vertex.operator_id for vertex in overview.vertices] == [plan.operator_id for plan in graph.plan]
    by_id = {vertex.operator_id: vertex for vertex in overview.vertices}
    for operator_id, inputs in graph.upstreams.items():
        assert by_id[operator_id].inputs == inputs
    (sink,) = [vertex for vertex in overview.vertices if vertex.role == "sink"]
    assert (sink.guarantee, sink.type, sink.name) == ("EXACTLY_ONCE", "MemorySink", graph.sinks[0].name)
    assert {vertex.role for vertex in overview.vertices} == {"source", "operator", "sink"}
    assert overview.line.in_progress == 1


def test_a_pipeline_without_a_completed_checkpoint_shows_its_newest(pages):
    world = pages()
    world.ask("r1")
    overview = world.readings.overview("p")
    assert overview.checkpoint_id == 1
    assert {vertex.inputs for vertex in overview.vertices} == {None}


def test_a_page_shows_what_it_knows_when_storage_is_away(pages):
    world = pages()
    world.take("r1")
    world.storage.files.clear()
    overview = world.readings.overview("p")
    assert {vertex.inputs for vertex in overview.vertices} == {None}
    found = world.readings.configuration("p")
    assert (found.latest, list(found.unreadable)) == (None, [1])


def test_options_and_what_changed(pages):
    world = pages(retained=9)
    world.take("r1")
    world.pipeline.checkpoints = CheckpointConfig(retained=9, timeout="5 min")
    world.reopen(world.store)
    world.take("r2")
    world.take("r3")
    found = world.readings.configuration("p")
    assert found.latest is not None
    assert (found.latest.checkpoint_id, found.latest.against, found.latest.changes) == (3, 2, ())
    (change,) = found.changes
    assert (change.checkpoint_id, change.against) == (2, 1)
    (option,) = change.changes
    assert (option.name, option.value, option.before) == ("timeout", 300_000, 600_000)
    assert {option.name for option in found.latest.options} == set(world.pipeline.checkpoints.describe())


def test_state_counts_runs(pages, store):
    readings = pages().readings
    old, new = handle("flights/chk-1/a", 1), handle("flights/chk-2/b", 2)
    completed(store, {FIRST: [old]})
    completed(store, {FIRST: [old, new]})
    (state,) = readings.state(PIPELINE)
    assert (state.operator_id, state.runs, state.rows, state.bytes, state.new_bytes) == ("carriers", 2, 20, 2000, 1000)
    assert (state.oldest_run, state.compacted) == (1, 0)
    (before,) = readings.state(PIPELINE, 1)
    assert (before.runs, before.bytes) == (1, 1000)


def test_a_run_that_subtasks_share_after_a_rescale_counts_once(pages, store):
    """On the overview, on the checkpoint's page and on that of its state."""
    shared, own = handle("flights/chk-1/a", 1), handle("flights/chk-2/b", 2)
    completed(store, {FIRST: [shared]})
    completed(store, {FIRST: [shared, own], SECOND: [shared]})
    readings = pages().readings
    (state,) = readings.state(PIPELINE, 2)
    assert (state.runs, state.rows, state.bytes, state.new_bytes, state.oldest_run) == (2, 20, 2000, 1000, 1)
    assert [(each.runs, each.rows, each.bytes, each.new_bytes) for each in state.slices] == [
        (2, 20, 2000, 1000),
        (1, 10, 1000, 0),
    ]
    (vertex,) = [each for each in readings.overview(PIPELINE).vertices if each.operator_id == "carriers"]
    assert (vertex.state_rows, vertex.state_size, vertex.checkpointed_size) == (20, 2000, 1000)
    carriers = readings.checkpoint(PIPELINE, 2).tasks["carriers"]
    assert (carriers.files, carriers.state_size, carriers.checkpointed_size) == (2, 2000, 1000)
    assert (carriers.summary.state_size.min, carriers.summary.state_size.max) == (1000, 2000)


def test_a_table_shows_the_newest_checkpoint_that_was_notified(pages, store):
    readings = pages().readings
    with store.transaction(PIPELINE) as tx:
        tx.record_endpoints([Endpoint(Role.SINK, "carriers", "ParquetSink", "out/carriers")], at(0))
    assert [(table.shows, table.in_doubt) for table in readings.tables(PIPELINE)] == [(None, ())]
    completed(store, {SINK: [handle("chk-1/s", 1, HandleKind.STAGED)]})
    completed(store, {SINK: [handle("chk-2/s", 2, HandleKind.STAGED)]}, notified=False)
    (table,) = readings.tables(PIPELINE)
    assert (table.sink, table.place, table.shows, table.in_doubt, table.rows) == (
        "carriers", "out/carriers", 1, (2,), 10,
    )  # fmt: skip


def test_a_table_in_the_commit_shows_a_checkpoint_that_others_were_not_told_of(pages, store):
    readings = pages().readings
    with store.transaction(PIPELINE) as tx:
        tx.record_endpoints([Endpoint(Role.SINK, name, "Sink", name) for name in ("carriers", "files")], at(0))
    completed(store, {SINK: [handle("chk-1/s", 1, HandleKind.STAGED)]})
    completed(store, {SINK: [handle("chk-2/s", 2, HandleKind.STAGED)]}, notified=False, committed=["carriers-sink"])
    assert [(table.sink, table.shows, table.in_doubt, table.rows) for table in readings.tables(PIPELINE)] == [
        ("carriers", 2, (), 10), ("files", 1, (2,), 0),
    ]  # fmt: skip


def test_quality_is_a_series_by_expectation(pages):
    world = pages(retained=9)
    for number in range(3):
        world.take(f"r{number}")
    judged = world.readings.validated_targets("p")
    assert judged
    target = judged[0]
    found = world.readings.quality("p", target.target, target.suite)
    assert [line.checkpoint_id for line in found.verdicts] == [3, 2, 1]
    older = world.readings.quality("p", target.target, target.suite, before=3, limit=1)
    assert [line.checkpoint_id for line in older.verdicts] == [2]
    assert world.readings.quality("p", "sink:none", "none").verdicts == ()


def test_observed_values_become_numbers_where_they_are(pages, running_url, postgres_url, store):
    from sqlalchemy import create_engine, text

    readings = pages().readings
    completed(store)
    triggered(store)
    results = [
        {"type": "mean", "kwargs": {"column": "a"}, "success": True, "observed": 1.5, "unexpected_percent": None},
        {"type": "mean", "kwargs": {"column": "b"}, "success": None, "observed": "<b>", "error": "no column"},
        {"type": "set", "kwargs": {}, "success": False, "observed": ["x"] * 200, "unexpected_count": 2},
        "not an object",
    ]
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg2://"))
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO tidegate.verdicts (pipeline_id, checkpoint_id, ordinal, target, suite, success, evaluated,"
                " failed, results) VALUES (:p, 2, 0, 'sink:out', 's', false, 3, 1, CAST(:r AS jsonb))"
            ),
            {"p": PIPELINE, "r": json.dumps(results)},
        )
    engine.dispose()
    first, second, third = readings.quality(PIPELINE, "sink:out", "s").expectations
    assert (first.type, first.observations[0].observed) == ("mean", 1.5)
    assert (second.observations[0].observed, second.observations[0].observed_text) == (None, "<b>")
    assert second.observations[0].error == "no column"
    assert len(third.observations[0].observed_text) == 200
    assert third.observations[0].unexpected_count == 2


def test_the_summary_counts_all_and_ranks_the_newest(pages, store):
    readings = pages().readings
    empty = triggered(store)
    assert {figure.p50 for figure in readings.summary(PIPELINE).summary.values()} == {-1}
    fail_checkpoint(store, empty)
    completed(store)
    completed(store, subsume=[2])
    found = readings.summary(PIPELINE)
    assert (found.counts.total, found.counts.completed, found.counts.failed) == (3, 2, 1)
    assert set(found.summary) == set(SUMMARIZED)
    assert (found.summary["end_to_end_duration"].p99, found.summary["state_size"].max) == (11_000, 4000)
    assert (found.latest.completed.id, found.latest.failed.id) == (3, empty)


def test_the_latest_savepoint_is_kept_apart(pages):
    world = pages(retained=1)
    for number, savepoint in enumerate([False, True, False], start=1):
        world.take(f"r{number}", savepoint=savepoint)
    found = world.readings.summary("p")
    assert (found.latest.savepoint.id, found.latest.completed.id) == (2, 3)
    world.stop("stop")
    world.complete(4)
    found = world.readings.summary("p")
    assert found.latest.savepoint.id == found.latest.completed.id == 4


def test_a_series_puts_neighbours_together_and_loses_none(pages):
    world = pages()
    for number in range(10):
        world.take(f"r{number}")
    for points in (1, 3, 4, 10, 200):
        found = world.readings.series("p", points)
        assert len(found) == min(points, 10)
        assert [point.first_id for point in found] == sorted(point.first_id for point in found)
        covered = [id_ for point in found for id_ in range(point.first_id, point.last_id + 1)]
        assert covered == list(range(1, 11))
        assert sum(point.count for point in found) == 10
    assert set(found[0].values) <= set(SERIES)
    assert found[0].values["rows_in"].avg >= 0
    assert [point.first_id for point in world.readings.series("p", since=T0 + timedelta(minutes=8))] == [8, 9, 10]
    assert [point.last_id for point in world.readings.series("p", until=T0 + timedelta(minutes=3))] == [1, 2]
