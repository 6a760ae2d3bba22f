"""The wait inside the triggerer, against a real database: when it fires, and what it outlives."""

import asyncio
import json
import time

import psycopg2
import pytest
from airflow.sdk.module_loading import import_string
from firing import POLL, fire
from records import SubtaskId
from user_actions import suspend

from tidegate.airflow.triggers import RENEWAL, AcknowledgeTrigger, RequestTrigger
from tidegate.assembly import open_coordinator
from tidegate.pipeline.config import CheckpointConfig
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Acknowledgement, CheckpointKind, Snapshot
from tidegate.protocol.steps.admission import LEASE
from tidegate.protocol.steps.trigger import Queued


@pytest.fixture
def coordinator(database, pipeline):
    coordinator = open_coordinator(pipeline)
    coordinator.trigger("r1")
    return coordinator


def acknowledge_all(coordinator):
    with coordinator.context.store.transaction("p") as tx:
        attempt = tx.begin_attempt(1)
    coordinator.record_acknowledgements(
        1, [Acknowledgement(subtask, attempt, Snapshot()) for subtask in coordinator.graph.subtasks]
    )


def test_the_trigger_fires_on_the_notification_that_all_have_acknowledged(coordinator):
    events, seconds = asyncio.run(fire(AcknowledgeTrigger("p", 1, POLL), lambda: acknowledge_all(coordinator)))
    assert events == [{"pipeline_id": "p"}]
    assert seconds < 2


def test_the_trigger_fires_when_the_checkpoint_is_aborted(coordinator):
    abort = lambda: coordinator.abort(1, FailureReason.TASK_FAILURE, "gone")  # noqa: E731
    events, _ = asyncio.run(fire(AcknowledgeTrigger("p", 1, POLL), abort))
    assert events == [{"pipeline_id": "p"}]


def test_the_trigger_does_not_fire_before_all_have_acknowledged(coordinator):
    def acknowledge_one():
        with coordinator.context.store.transaction("p") as tx:
            attempt = tx.begin_attempt(1)
        coordinator.record_acknowledgements(1, [Acknowledgement(SubtaskId("src", 0), attempt, Snapshot())])

    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(fire(AcknowledgeTrigger("p", 1, 0.1), acknowledge_one), 2))


@pytest.mark.parametrize("checkpoint_id", [1, 99])
def test_the_trigger_fires_at_once_when_there_is_nothing_to_wait_for(coordinator, checkpoint_id):
    coordinator.abort(1, FailureReason.TASK_FAILURE, "gone")
    events, seconds = asyncio.run(fire(AcknowledgeTrigger("p", checkpoint_id, POLL), after=0))
    assert events == [{"pipeline_id": "p"}]
    assert seconds < 5


def test_the_trigger_fires_at_the_deadline(database, pipeline):
    pipeline.checkpoints = CheckpointConfig(timeout="2 s")
    open_coordinator(pipeline).trigger("r1")
    events, _ = asyncio.run(fire(AcknowledgeTrigger("p", 1, POLL), after=0))
    assert events == [{"pipeline_id": "p"}]


def test_the_trigger_wakes_its_task_once_for_a_deadline_that_only_a_clock_ahead_can_have_set(coordinator, database):
    def the_clock_is_set_back():
        with psycopg2.connect(database.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
            cursor.execute("ALTER TABLE tidegate.checkpoints DISABLE TRIGGER USER")
            day = "SET triggered_at = triggered_at + '1 day', deadline = deadline + '1 day'"
            cursor.execute(f"UPDATE tidegate.checkpoints {day}")
            cursor.execute("ALTER TABLE tidegate.checkpoints ENABLE TRIGGER USER")

    events, _ = asyncio.run(fire(AcknowledgeTrigger("p", 1, 0.2), the_clock_is_set_back))
    assert events == [{"pipeline_id": "p"}]
    coordinator.acknowledge(1)  # as the task does
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(fire(AcknowledgeTrigger("p", 1, 0.2), after=0), 2))


def test_a_lost_notification_is_made_up_for_by_looking_again(coordinator, database):
    def silently():
        with psycopg2.connect(database.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE tidegate.checkpoints SET deadline = triggered_at")

    events, _ = asyncio.run(fire(AcknowledgeTrigger("p", 1, 0.2), silently))
    assert events == [{"pipeline_id": "p"}]


def test_the_trigger_outlives_a_restart_of_the_database(coordinator, postgres_server):
    def restart():
        postgres_server.stop()
        time.sleep(1)
        postgres_server.start()
        acknowledge_all(coordinator)

    events, _ = asyncio.run(fire(AcknowledgeTrigger("p", 1, POLL), restart))
    assert events == [{"pipeline_id": "p"}]


def test_a_triggerer_that_restarts_makes_the_same_trigger_from_what_is_stored(coordinator, database):
    path, kwargs = AcknowledgeTrigger("p", 1, 2.5).serialize()
    stored = json.dumps([path, kwargs])
    assert "postgres" not in stored
    again = import_string(path)(**json.loads(stored)[1])
    assert again.serialize() == (path, kwargs)
    events, _ = asyncio.run(fire(again, lambda: acknowledge_all(coordinator)))
    assert events == [{"pipeline_id": "p"}]


# -- the wait in line


@pytest.fixture
def wait_in_line(coordinator):
    """Ask, behind the checkpoint that is in progress, and give the trigger that the task would wait with."""

    def wait(request_id, kind=CheckpointKind.CHECKPOINT, poll_interval=POLL):
        assert isinstance(coordinator.trigger(request_id, kind=kind, wait=True), Queued)
        return RequestTrigger("p", request_id, poll_interval)

    return wait


def abort_first(coordinator):
    coordinator.abort(1, FailureReason.TASK_FAILURE, "gone")


async def fired_first(triggers, meanwhile, others_rest=1.0):
    """Which of them fired after `meanwhile`, and that long after the first one did."""
    waiting = {asyncio.create_task(fire(trigger, after=0)): trigger.request_id for trigger in triggers}
    done, pending = await asyncio.wait(waiting, timeout=1.5)
    assert not done, "nothing happened yet"
    await asyncio.to_thread(meanwhile)
    done, pending = await asyncio.wait(waiting, timeout=20, return_when=asyncio.FIRST_COMPLETED)
    if pending:
        more, pending = await asyncio.wait(pending, timeout=others_rest)
        done |= more
    for task in pending:
        task.cancel()
    return sorted(waiting[task] for task in done)


def test_of_those_that_wait_in_line_the_first_alone_is_woken_when_its_turn_has_come(coordinator, wait_in_line):
    triggers = [wait_in_line("r2"), wait_in_line("r3"), wait_in_line("r4", CheckpointKind.SAVEPOINT)]
    assert asyncio.run(fired_first(triggers, lambda: abort_first(coordinator))) == ["r4"]


def test_the_first_who_waits_behind_a_command_that_may_be_dead_is_woken(coordinator, wait_in_line):
    wait_in_line("manual:1")  # and the process is killed
    triggers = [wait_in_line(f"dag/{run}/20260101T000000.000000") for run in ("a", "b")]
    assert asyncio.run(fired_first(triggers, lambda: abort_first(coordinator))) == [triggers[0].request_id]


def test_those_that_wait_in_line_rest_while_the_checkpoint_in_front_of_them_goes_on(coordinator, wait_in_line):
    trigger = wait_in_line("r2", poll_interval=0.1)
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(fire(trigger, lambda: acknowledge_all(coordinator)), 3))


def test_a_request_that_was_dropped_is_reported(coordinator, wait_in_line):
    triggers = [wait_in_line("r2"), wait_in_line("r3")]
    assert asyncio.run(fired_first(triggers, lambda: suspend(coordinator))) == ["r2", "r3"]


def test_who_waits_in_line_is_woken_at_the_deadline_of_what_is_in_front(database, pipeline):
    pipeline.checkpoints = CheckpointConfig(timeout="3 s")
    coordinator = open_coordinator(pipeline)
    coordinator.trigger("r1")
    assert isinstance(coordinator.trigger("r2", wait=True), Queued)
    events, _ = asyncio.run(fire(RequestTrigger("p", "r2", POLL), after=0))
    assert events == [{"pipeline_id": "p"}]


def test_a_request_is_renewed_long_before_it_loses_its_place(wait_in_line, database):
    trigger = wait_in_line("r2", poll_interval=0.2)
    assert RENEWAL < LEASE

    def long_ago():
        with psycopg2.connect(database.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE tidegate.requests SET asked_at = asked_at - %s, seen_at = now() - %s", [RENEWAL] * 2)

    events, _ = asyncio.run(fire(trigger, long_ago))
    assert events == [{"pipeline_id": "p"}]


def test_who_waits_in_line_outlives_a_restart_of_triggerer_and_database(coordinator, wait_in_line, postgres_server):
    path, kwargs = wait_in_line("r2").serialize()
    stored = json.dumps([path, kwargs])
    assert "postgres" not in stored

    def restart():
        postgres_server.stop()
        postgres_server.start()
        abort_first(coordinator)

    events, _ = asyncio.run(fire(import_string(path)(**json.loads(stored)[1]), restart))
    assert events == [{"pipeline_id": "p"}]
