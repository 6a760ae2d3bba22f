"""What each step's outcome means to Airflow: success, skip, retry or failure.
The coordinator and the database are real."""

import os
import signal
import time
import traceback
from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import AirflowFailException
from dag_steps import complete, judge

from tidegate.airflow.dag import checkpoint_dag
from tidegate.assembly import open_coordinator
from tidegate.protocol.facts.errors import SourceChangedError, StorageError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason

pytestmark = pytest.mark.usefixtures("database")


# -- snapshot


def test_snapshot_acknowledges_and_stops_spark(dag, run, regions, checkpoint):
    run(dag.get_task("trigger"))
    assert run(dag.get_task("snapshot")).state == "success"
    assert checkpoint().phase is Phase.ACKNOWLEDGED


def test_a_snapshot_that_may_pass_is_retried_as_a_new_attempt_of_the_same_checkpoint(dag, run, regions, checkpoint):
    run(dag.get_task("trigger"))
    regions.before = lambda: (_ for _ in ()).throw(OSError("executor lost"))
    assert run(dag.get_task("snapshot"), try_number=1).state == "up_for_retry"
    assert checkpoint().status is Status.IN_PROGRESS
    regions.before = lambda: None
    assert run(dag.get_task("snapshot"), try_number=2).state == "success"
    assert [region.attempts for region in regions.opened] == [[1], [2]]


def test_a_deterministic_failure_is_not_retried_and_its_cause_is_recorded(dag, run, regions, checkpoint):
    def change():
        raise SourceChangedError("landing/a.csv has changed.")

    run(dag.get_task("trigger"))
    regions.before = change
    ran = run(dag.get_task("snapshot"), try_number=1)
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert str(ran.error) == "landing/a.csv has changed."
    assert checkpoint().failure_reason is FailureReason.CHECKPOINT_DECLINED
    assert checkpoint().failure_message == "Task snapshot failed for good: landing/a.csv has changed."


def test_a_definition_that_cannot_run_fails_before_the_region_begins(dag, run, regions, checkpoint):
    run(dag.get_task("trigger"))
    regions.problems = ["The operator 'totals' needs column 'amount'."]
    ran = run(dag.get_task("snapshot"), try_number=1)
    assert ran.state == "failed"
    assert str(ran.error).startswith("The operator 'totals' needs column 'amount'. The definition of pipeline ")
    assert [region.attempts for region in regions.opened] == [[]]
    assert checkpoint().failure_reason is FailureReason.TASK_FAILURE


def test_a_definition_that_has_completed_a_checkpoint_is_not_checked_again(dag, run, regions, monkeypatch):
    judge(monkeypatch, True)
    complete(dag, run, "r1")
    regions.problems = ["It is looked at again."]
    complete(dag, run, "r2", run_after=datetime(2026, 11, 23, tzinfo=UTC))


@pytest.mark.parametrize("kind", [SourceChangedError, StorageError])
def test_what_caused_an_error_is_in_a_group_of_the_log(kind, dag, run, regions, caplog):
    """Airflow logs all of what is raised, and would log the stack of Java with it."""

    def fail():
        try:
            raise OSError(
                "An error occurred while calling o57.\n: java.io.IOException: disk\n\tat org.apache.A.b(C.java)"
            )
        except OSError as error:
            raise kind("landing/a.csv cannot be read.") from error

    run(dag.get_task("trigger"))
    regions.before = fail
    with caplog.at_level("INFO", "tidegate"):
        ran = run(dag.get_task("snapshot"), try_number=1)
    assert "java" not in "".join(traceback.format_exception(ran.error))
    said = [record.getMessage() for record in caplog.records if record.name == "tidegate"]
    begin = said.index("::group::Causes")
    assert said[begin + 1 : begin + 3] == [
        "OSError: An error occurred while calling o57.\n: java.io.IOException: disk", "::endgroup::"
    ]  # fmt: skip


def test_a_missing_spark_connection_fails_the_task_at_once(database, dag, run, monkeypatch):
    """A retry finds none either. `running_region` is the real one, as in an Airflow without Spark."""
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    triggered = run(dag.get_task("trigger"))
    ran = run(dag.get_task("snapshot"))
    assert (triggered.state, ran.state) == ("success", "failed")
    assert "AIRFLOW_CONN_SPARK_DEFAULT=" in str(ran.error)


def test_the_last_try_records_its_cause(dag, run, regions, checkpoint):
    run(dag.get_task("trigger"))
    regions.before = lambda: (_ for _ in ()).throw(OSError("executor lost"))
    assert run(dag.get_task("snapshot"), try_number=4).state == "failed"
    assert checkpoint().failure_reason is FailureReason.TASK_FAILURE
    assert checkpoint().failure_message == "Task snapshot failed for good: OSError: executor lost"


def test_a_snapshot_that_somebody_stops_ends_its_spark_and_leaves_the_checkpoint_to_its_retry(
    dag, run, regions, checkpoint
):
    def stopped():
        os.kill(os.getpid(), signal.SIGTERM)  # as Airflow does when the task is cleared or marked
        assert regions.opened[-1].session.stopped
        raise OSError("Job cancelled")

    run(dag.get_task("trigger"))
    regions.before = stopped
    assert run(dag.get_task("snapshot"), try_number=4).state == "failed"
    assert checkpoint().status is Status.IN_PROGRESS


def test_a_snapshot_of_an_acknowledged_checkpoint_needs_no_spark(dag, run, regions):
    run(dag.get_task("trigger"))
    run(dag.get_task("snapshot"))
    assert run(dag.get_task("snapshot"), try_number=2).state == "success"
    assert len(regions.opened) == 1


def test_java_compiles_with_its_optimising_compiler_where_the_dag_says_so(pipeline, dag, run, regions, good):
    complete(dag, run, "r1")
    thorough = checkpoint_dag(pipeline, dag_id="thorough", optimizing_compiler=True)
    complete(thorough, run, "r2", run_after=datetime(2026, 11, 23, tzinfo=UTC))
    assert regions.optimizing == [False, True]


def test_a_continuous_region_takes_the_snapshot_without_the_tasks_spark(dag, run, regions, pipeline, checkpoint):
    coordinator = open_coordinator(pipeline)
    attempt = coordinator.start_region().attempt
    run(dag.get_task("trigger"))
    assert run(dag.get_task("snapshot")).state == "success"
    assert regions.opened == []
    assert run(dag.get_task("acknowledge")).state == "deferred"
    task = coordinator.begin_snapshot(attempt, 1)
    regions.region().snapshot(task, lambda acks: coordinator.record_acknowledgements(1, acks))
    assert run(dag.get_task("acknowledge"), next_method="poll").state == "success"
    assert checkpoint().phase is Phase.ACKNOWLEDGED
    coordinator.end_region(attempt)


def test_spark_is_stopped_once_the_checkpoint_has_ended(dag, run, regions, pipeline, checkpoint, monkeypatch):
    """A job that hangs must not hold the pipeline: it ends with the checkpoint, and is not retried."""
    monkeypatch.setattr("tidegate.airflow.running_region.POLL_EVERY", 0.05)
    run(dag.get_task("trigger"))

    def hang():
        open_coordinator(pipeline).abort(1, FailureReason.CHECKPOINT_EXPIRED, "Too late.")
        deadline = time.monotonic() + 10
        while not regions.opened[-1].session.stopped:
            assert time.monotonic() < deadline, "Spark was not stopped"
            time.sleep(0.01)
        raise OSError("Job cancelled")

    regions.before = hang
    ran = run(dag.get_task("snapshot"), try_number=1)
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert "Too late." in str(ran.error)


def test_an_id_that_is_none_says_where_ids_come_from(dag, run):
    ran = run(dag.get_task("finalize"), try_number=1)
    assert ran.state == "up_for_retry"
    assert "Name that task 'trigger', or pass checkpoint_id=<task>.output" in str(ran.error)


def test_a_step_of_an_unknown_checkpoint_fails_at_once(dag, run, supervisor):
    supervisor.xcoms["trigger"] = 7
    ran = run(dag.get_task("finalize"))
    assert ran.state == "failed"
    assert "has no checkpoint 7" in str(ran.error)


def test_a_database_that_is_away_is_worth_a_retry(dag, run, monkeypatch):
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert run(dag.get_task("trigger")).state == "up_for_retry"


# -- validate, finalize


def test_what_is_good_is_judged_by_the_snapshot_on_its_spark_and_validate_starts_none(
    dag, run, regions, checkpoint, monkeypatch
):
    given = []
    good = judge(monkeypatch, True)
    monkeypatch.setattr("tidegate.assembly.open_validator", lambda _, region: given.append(region()) or good())
    run(dag.get_task("trigger"))
    assert run(dag.get_task("snapshot")).state == "success"
    assert checkpoint().phase is Phase.VALIDATED
    for step in ("acknowledge", "validate", "finalize"):
        assert run(dag.get_task(step)).state == "success"
    assert (good.asked, given) == (1, regions.opened)
    assert len(regions.opened) == 1


def test_what_is_not_good_is_judged_anew_and_fails_in_validate(dag, run, regions, checkpoint, monkeypatch):
    bad = judge(monkeypatch, False)
    run(dag.get_task("trigger"))
    assert run(dag.get_task("snapshot")).state == "success"
    assert (checkpoint().phase, checkpoint().status) == (Phase.ACKNOWLEDGED, Status.IN_PROGRESS)
    assert run(dag.get_task("acknowledge")).state == "success"
    assert run(dag.get_task("validate")).state == "failed"
    assert (bad.asked, checkpoint().failure_reason) == (2, FailureReason.VALIDATION_FAILED)


def test_a_snapshot_whose_judge_breaks_has_done_its_step(dag, run, regions, checkpoint, monkeypatch):
    def broken(*_):
        raise OSError("no judge")

    monkeypatch.setattr("tidegate.assembly.open_validator", broken)
    run(dag.get_task("trigger"))
    assert run(dag.get_task("snapshot")).state == "success"
    assert checkpoint().phase is Phase.ACKNOWLEDGED
    judge(monkeypatch, True)
    assert run(dag.get_task("validate")).state == "success"


def test_a_failed_validation_is_not_retried(dag, run, regions, checkpoint, monkeypatch, caplog):
    judge(monkeypatch, False, ({"type": "expect_column_to_exist", "kwargs": {"column": "n"}, "success": False},))
    run(dag.get_task("trigger"))
    run(dag.get_task("snapshot"))
    ran = run(dag.get_task("validate"), try_number=1)
    assert ran.state == "failed"
    assert isinstance(ran.error, AirflowFailException)
    assert checkpoint().failure_reason is FailureReason.VALIDATION_FAILED
    said = [record.getMessage() for record in caplog.records if record.name == "tidegate"]
    assert said[-2] == "sink:out: column_to_exist on n: failed"
    assert said[-1].endswith("/docs/p/chk-1.html, on the pages /tidegate/docs/p/chk-1.html")
    assert run(dag.get_task("finalize")).state == "failed"


def test_a_repeated_validation_gives_the_first_answer_without_spark(dag, run, regions, good):
    run(dag.get_task("trigger"))
    run(dag.get_task("snapshot"))
    run(dag.get_task("validate"))
    opened = len(regions.opened)
    assert run(dag.get_task("validate"), try_number=2).state == "success"
    assert (good.asked, len(regions.opened)) == (1, opened)


# -- notify


def test_notify_announces_every_sink_with_its_rows(dag, run, regions, good, sink):
    ran = complete(dag, run)
    assert [(profile.uri, profile.type) for profile in ran.message.task_outlets] == [("tidegate://p/out", "Asset")]
    assert [event["extra"] for event in ran.message.outlet_events] == [{"checkpoint_id": 1, "rows": 6}]
    assert set(sink.visible) == {1}


def test_a_crash_before_airflow_knew_of_the_success_loses_no_event(dag, run, regions, good, supervisor):
    complete(dag, run)  # the task ended, but its message, events included, never arrived
    again = run(dag.get_task("notify"), try_number=2)
    assert [event["extra"] for event in again.message.outlet_events] == [{"checkpoint_id": 1, "rows": 6}]


def test_a_cleared_finished_run_changes_nothing(dag, run, regions, good, supervisor, sink, checkpoint):
    complete(dag, run)
    supervisor.events = [{"uri": "tidegate://p/out", "extra": {"checkpoint_id": 1, "rows": 6}}]
    before, visible, opened = checkpoint(), dict(sink.visible), len(regions.opened)
    ran = complete(dag, run, try_number=2, clear_number=1)
    assert supervisor.xcoms["trigger"] == 1
    assert (checkpoint(), sink.visible, len(regions.opened)) == (before, visible, opened)
    assert checkpoint(2) is None
    assert (ran.message.task_outlets, ran.message.outlet_events) == ([], [])


@pytest.fixture
def interruptible():
    """As every process of Airflow is. A run of the tests in the background may have been started to ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_task_of_airflow_dags_test_for_good_and_of_a_real_run_for_a_retry(dag, run, regions):
    signals = [signal.SIGTERM, signal.SIGINT, signal.SIGINT]

    def interrupt():
        os.kill(os.getpid(), signals.pop(0))
        time.sleep(30)

    regions.before = interrupt
    run(dag.get_task("trigger"))
    for _ in ("SIGTERM", "SIGINT"):
        ran = run(dag.get_task("snapshot"), user="dag_test")
        assert (ran.state, type(ran.error)) == ("failed", AirflowFailException), ran.error
    assert run(dag.get_task("snapshot")).state == "up_for_retry"


def test_the_event_of_another_checkpoint_does_not_stand_for_this_one(dag, run, regions, good, supervisor):
    supervisor.events = [
        {"uri": "tidegate://p/out", "extra": {"checkpoint_id": 9, "rows": 1}},
        {"uri": "x", "extra": {}},
    ]
    assert len(complete(dag, run).message.outlet_events) == 1
