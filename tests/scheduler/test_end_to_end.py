"""A pipeline under a real Airflow: scheduler, triggerer, executor, API server, Postgres and Spark, nothing replaced.

Each test lays its own data and looks at what its own DAG run changed.
"""

import json
import os
import signal
from datetime import UTC, datetime

import pytest
from live_airflow import PATIENCE, PIPELINE, STEPS

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_run_commits_its_checkpoint_and_announces_it_and_clearing_it_changes_nothing(world):
    world.lay("good", ("good", 1), ("good", 2))
    run_id, state = world.run()

    checkpoint = world.checkpoints()[0]
    assert state == "success"
    assert world.states(run_id) == dict.fromkeys(STEPS, "success") | {"abort": "skipped"}
    assert checkpoint.status is Status.COMPLETED
    assert checkpoint.request_id.startswith(f"small/{run_id}/")
    assert not checkpoint.periodic
    assert world.totals()["good"] == (2, 3)
    assert world.xcoms(run_id) == {("trigger", "return_value"): checkpoint.checkpoint_id}
    staged = world.staged(checkpoint.checkpoint_id)
    announced = [
        (f"tidegate://small/{sink}", {"checkpoint_id": checkpoint.checkpoint_id, "rows": staged[f"{sink}-sink"]})
        for sink in ("rows", "totals")
    ]
    assert world.events(run_id) == announced
    consumers = world.api.call("GET", "/dags/consumer/dagRuns")["dag_runs"]
    assert {run["run_type"] for run in consumers} == {"asset_triggered"}

    before = (world.checkpoints(), world.rows(), world.totals())
    world.api.clear("small", run_id)
    assert world.api.wait("small", run_id, PATIENCE) == "success"
    assert set(world.tries(run_id).values()) - {0, 1} == {2}
    assert (world.checkpoints(), world.rows(), world.totals()) == before
    assert world.events(run_id) == announced


@pytest.mark.long
def test_a_restore_shows_its_plan_then_takes_the_tables_back_and_announces_it(world):
    for name in ("right", "wrong"):
        world.lay(name, (name, 8))
        assert world.run()[1] == "success"
    latest, before = world.checkpoints()[:2]
    rows = [row for row in world.rows() if row[0] != "wrong"]

    def restore(**conf):
        run_id = world.api.trigger("tidegate_restore", conf={"pipeline": "small"} | conf)
        assert world.api.wait("tidegate_restore", run_id, PATIENCE) == "success"
        return run_id, world.states(run_id, "tidegate_restore")["restore"]

    run_id, state = restore(to=str(before.checkpoint_id))
    assert state == "skipped"
    assert f"left behind: {latest.checkpoint_id}" in world.api.log("tidegate_restore", run_id, "restore")
    assert "wrong" in world.totals()
    run_id = world.api.trigger("tidegate_restore", conf={"pipeline": "small", "to": "1", "dry_run": False})
    assert world.api.wait("tidegate_restore", run_id, PATIENCE) == "failed"
    run_id = world.api.restore("small", before.checkpoint_id, "tidegate_restore")
    assert world.api.wait("tidegate_restore", run_id, PATIENCE) == "success"
    state = world.states(run_id, "tidegate_restore")["restore"]
    assert (state, world.rows(), "wrong" in world.totals()) == ("success", rows, False)
    event = {"checkpoint_id": before.checkpoint_id, "restored": True}
    assert world.events(run_id) == [(f"tidegate://small/{sink}", event) for sink in ("rows", "totals")]
    assert world.run()[1] == "success"
    assert world.totals()["wrong"] == (1, 8)


def test_a_killed_snapshot_is_taken_up_by_its_retry_and_then_a_savepoint_comes_before_an_older_request(world):
    world.lay("killed", ("killed", 5))
    world.hold()
    run_id = world.api.trigger("small")
    driver = world.driver()
    checkpoint_id = world.checkpoints()[0].checkpoint_id

    manual = world.asking("small_again")
    savepoint = world.asking("small_again", kind="SAVEPOINT")
    assert world.checkpoints()[0].checkpoint_id == checkpoint_id

    os.kill(driver, signal.SIGKILL)
    world.release()
    assert world.api.wait("small", run_id, PATIENCE) == "success"
    assert world.tries(run_id)["snapshot"] == 2
    assert world.states(run_id)["abort"] == "skipped"
    for run in (savepoint, manual):
        assert world.api.wait("small_again", run, PATIENCE) == "success"
    newest = world.checkpoints()[:3]
    assert [(record.request_id.rpartition("/")[0], record.kind, record.status) for record in newest] == [
        (f"small_again/{manual}", CheckpointKind.CHECKPOINT, Status.COMPLETED),
        (f"small_again/{savepoint}", CheckpointKind.SAVEPOINT, Status.COMPLETED),
        (f"small/{run_id}", CheckpointKind.CHECKPOINT, Status.COMPLETED),
    ]
    assert newest[2].checkpoint_id == checkpoint_id
    attempts = {subtask.attempt for subtask in world.store.subtasks(PIPELINE, checkpoint_id).values()}
    assert max(attempts) == 2
    assert world.totals()["killed"] == (1, 5)


def test_a_run_of_a_suspended_pipeline_is_skipped_with_the_reason(world):
    with world.store.transaction(PIPELINE) as tx:
        tx.move_pipeline(PipelineStatus.SUSPENDED, datetime.now(UTC))
    run_id, state = world.run()
    with world.store.transaction(PIPELINE) as tx:
        tx.move_pipeline(PipelineStatus.RUNNING, datetime.now(UTC))
    assert state == "success"
    assert set(world.states(run_id).values()) == {"skipped"}
    log = world.api.log("small", run_id, "trigger")
    assert "NOT_ALL_REQUIRED_TASKS_RUNNING" in log
    assert "tidegate resume small" in log


@pytest.mark.long
def test_bad_rows_abort_the_checkpoint_and_the_corrected_file_goes_through_when_the_run_is_cleared(world):
    before = [record.checkpoint_id for record in world.checkpoints() if record.status is Status.COMPLETED]
    world.lay("bad", ("bad", 7), ("bad", -1))
    run_id, state = world.run()

    failed = world.checkpoints()[0]
    assert state == "failed"
    assert world.states(run_id) == {
        "trigger": "success", "snapshot": "success", "acknowledge": "success", "validate": "failed",
        "finalize": "upstream_failed", "notify": "upstream_failed", "abort": "success",
    }  # fmt: skip
    assert world.tries(run_id)["validate"] == 1
    assert (failed.status, failed.failure_reason) == (Status.FAILED, FailureReason.VALIDATION_FAILED)
    assert [record.checkpoint_id for record in world.checkpoints() if record.status is Status.COMPLETED] == before
    assert "bad" not in {k for k, _ in (world.rows() if before else [])}
    assert world.events(run_id) == []
    told = [json.loads(line) for line in (world.home / "told.jsonl").read_text().splitlines()]
    (told,) = (each for each in told if each["checkpoint"] == failed.checkpoint_id)
    assert (told["pipeline"], told["reason"], told["task"]) == ("small", "VALIDATION_FAILED", "validate")
    assert told["link"].endswith(f"/tidegate/pipelines/small/checkpoints/{failed.checkpoint_id}")

    world.lay("bad", ("bad", 7), ("bad", 1))
    world.api.clear("small", run_id)
    assert world.api.wait("small", run_id, PATIENCE) == "success"
    latest = world.checkpoints()[0]
    assert latest.checkpoint_id == failed.checkpoint_id + 1
    assert (latest.status, latest.request_id) == (Status.COMPLETED, failed.request_id)
    assert world.totals()["bad"] == (2, 8)
    assert len(world.events(run_id)) == 2


def test_a_checkpoint_past_its_deadline_is_aborted_and_its_stuck_spark_job_is_stopped(world):
    assert world.api.wait("hasty", world.hasty_run, PATIENCE) == "failed"
    expired = world.checkpoints("hasty")[0]
    assert (expired.status, expired.failure_reason) == (Status.FAILED, FailureReason.CHECKPOINT_EXPIRED)
    assert world.home.joinpath("hasty.hold").exists()  # nobody let it go
    assert world.states(world.hasty_run, "hasty") == {
        "trigger": "success", "snapshot": "failed", "acknowledge": "upstream_failed", "validate": "upstream_failed",
        "finalize": "upstream_failed", "notify": "upstream_failed", "abort": "success",
    }  # fmt: skip
    assert world.tries(world.hasty_run, "hasty")["snapshot"] == 1
    assert "CHECKPOINT_EXPIRED" in world.api.log("hasty", world.hasty_run, "abort")


@pytest.mark.long
def test_a_run_that_drains_the_pipeline_is_its_last_and_the_next_is_skipped_with_the_reason(world):
    world.lay("last", ("last", 3))
    run_id = world.api.trigger("small", conf={"kind": "SYNC_SAVEPOINT", "drain": True})
    assert world.api.wait("small", run_id, PATIENCE) == "failed"
    run_id = world.api.drain("small")
    assert world.api.wait("small", run_id, PATIENCE) == "success"
    savepoint = world.checkpoints()[0]
    assert (savepoint.kind, savepoint.drain, savepoint.status) == (
        CheckpointKind.SYNC_SAVEPOINT,
        True,
        Status.COMPLETED,
    )
    assert savepoint.num_finished == savepoint.num_subtasks
    assert world.store.pipeline(PIPELINE).status is PipelineStatus.FINISHED
    assert world.totals()["last"] == (1, 3)
    run_id, state = world.run()
    assert state == "success"
    assert set(world.states(run_id).values()) == {"skipped"}
    assert f"drained by savepoint {savepoint.checkpoint_id}" in world.api.log("small", run_id, "trigger")
