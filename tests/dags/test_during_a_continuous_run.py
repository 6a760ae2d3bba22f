"""DAG runs of a pipeline that runs continuously: the region takes the snapshots, the tasks wait for it and do the rest.

The region counts up in a thread of this process; the tasks, the trigger and the database are real.
"""

import asyncio
from contextlib import contextmanager
from random import Random
from threading import Event, Lock, Thread

import pytest
from airflow.sdk.module_loading import import_string
from live_pipelines import CountingRegion, Script, shown
from worlds import Judge

from tidegate.airflow import checkpoint_dag
from tidegate.assembly import open_coordinator, open_store
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.protocol.facts.lifecycle import Status

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def script(sink, monkeypatch):
    lock, commit = Lock(), sink.commit

    def one_at_a_time(*arguments):
        with lock:
            commit(*arguments)

    monkeypatch.setattr(sink, "commit", one_at_a_time)
    return Script()


@pytest.fixture
def continuously(pipeline, sink, script):
    """While it holds, the pipeline runs continuously."""

    @contextmanager
    def running():
        opened, stopping, ended = Event(), Event(), []

        def open_region(start, background):
            opened.set()
            return CountingRegion(start, sink, script)

        def run():
            coordinator = open_coordinator(pipeline)
            each = ContinuousRun(coordinator, open_region, Judge(True), Random())
            ended.append(each.run(stopping.is_set))

        thread = Thread(target=run)
        thread.start()
        try:
            assert opened.wait(30)
            yield
        finally:
            stopping.set()
            thread.join(60)
        assert ended, "the run ended with an error"

    return running


def go_on_after(ran):
    """Wait as Airflow's triggerer does for a task that has been deferred, at most a minute."""

    async def fired():
        async for _ in import_string(ran.message.classpath)(**ran.message.trigger_kwargs).run():
            return ran.message.next_method
        raise AssertionError("it never fired")

    return asyncio.run(asyncio.wait_for(fired(), 60))


def test_a_dag_run_leaves_the_snapshot_to_the_region_and_completes_with_it(
    pipeline, run, regions, script, continuously, sink, supervisor, monkeypatch
):
    monkeypatch.setattr("tidegate.assembly.open_validator", lambda *_: Judge(True))
    script.orders[1] = "silent"
    with continuously():
        for number in (1, 2):
            dag, run_id = checkpoint_dag(pipeline), f"r{number}"
            assert run(dag.get_task("trigger"), run_id).state == "success"
            assert supervisor.xcoms["trigger"] == number
            assert run(dag.get_task("snapshot"), run_id).state == "success"
            waiting = run(dag.get_task("acknowledge"), run_id)
            if number == 1:
                assert waiting.state == "deferred", "the region is silent"
                script.orders.clear()
            while waiting.state == "deferred":
                waiting = run(dag.get_task("acknowledge"), run_id, next_method=go_on_after(waiting))
            assert waiting.state == "success", waiting.error
            for name in ("validate", "finalize", "notify"):
                ran = run(dag.get_task(name), run_id)
                assert ran.state == "success", (name, ran.error)
            assert [event["extra"]["checkpoint_id"] for event in ran.message.outlet_events] == [number]
    assert not any(region.attempts for region in regions.opened), "a task took the snapshot"
    assert script.notified[:2] == ["begin 1", "completed 1"]
    assert [(r.request_id.split("/")[:2], r.status) for r in reversed(open_store().history("p", 9))] == [
        (["p", "r1"], Status.COMPLETED),
        (["p", "r2"], Status.COMPLETED),
    ]
    numbers = shown(sink)
    assert numbers
    assert numbers == list(range(len(numbers)))


def test_when_the_run_has_ended_the_next_dag_run_takes_the_snapshot_itself(
    pipeline, run, regions, continuously, monkeypatch
):
    monkeypatch.setattr("tidegate.assembly.open_validator", lambda _, region: region() and Judge(True))
    with continuously():
        pass
    dag = checkpoint_dag(pipeline)
    for name in ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify"):
        ran = run(dag.get_task(name))
        assert ran.state == "success", (name, ran.error)
    assert [region.attempts for region in regions.opened] == [[1]], "the one that took it judges it too"
