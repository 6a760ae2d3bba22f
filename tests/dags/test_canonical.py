"""A canonical savepoint that a DAG run asks for, and the form of the DAG that restores from one."""

import json

import pytest
from airflow.sdk.exceptions import AirflowFailException

from tidegate.airflow import restore_dag
from tidegate.protocol.facts.errors import StorageError
from tidegate.protocol.facts.records import CheckpointKind

pytestmark = pytest.mark.usefixtures("database")

STEPS = ("trigger", "snapshot", "acknowledge", "validate", "finalize")


@pytest.fixture
def asked(tmp_path):
    return {"kind": "SAVEPOINT", "format": "canonical", "directory": str(tmp_path / "saved"), "name": "kept"}


def take(dag, run, conf):
    for step in STEPS:
        assert run(dag.get_task(step), conf=conf).state == "success"


def test_notify_writes_it_and_a_repeat_writes_nothing(dag, run, regions, good, checkpoint, asked, tmp_path):
    take(dag, run, asked)
    assert run(dag.get_task("notify"), conf=asked).state == "success"
    assert (checkpoint().kind, checkpoint().location) == (CheckpointKind.SAVEPOINT, asked["directory"])
    marker = json.loads((tmp_path / "saved/_savepoint").read_text())
    assert (marker["checkpoint_id"], marker["files"]) == (1, 0)
    opened = len(regions.opened)
    assert run(dag.get_task("notify"), conf=asked, try_number=2).state == "success"
    assert len(regions.opened) == opened


def test_if_it_cannot_be_written_the_task_is_repeated_and_the_savepoint_stands(
    dag, run, regions, good, checkpoint, asked
):
    take(dag, run, asked)

    def full():
        raise StorageError("The disk is full.")

    regions.before = full
    ran = run(dag.get_task("notify"), conf=asked)
    assert (ran.state, checkpoint().notified_at is not None) == ("up_for_retry", True)
    assert "Savepoint kept of pipeline p was taken" in str(ran.error)
    regions.before = lambda: None
    assert run(dag.get_task("notify"), conf=asked, try_number=2).state == "success"
    assert checkpoint().exported_at is not None


def test_a_checkpoint_has_no_format_and_is_refused_at_once(dag, run, checkpoint, asked):
    ran = run(dag.get_task("trigger"), conf=asked | {"kind": "CHECKPOINT", "name": None})
    assert isinstance(ran.error, AirflowFailException)
    assert "Only a savepoint has a format" in str(ran.error)
    assert checkpoint() is None


def test_the_dag_that_restores_plans_from_a_directory_too(dag, pipeline, run, regions, good, checkpoint, asked):
    take(dag, run, asked)
    assert run(dag.get_task("notify"), conf=asked).state == "success"
    restore = restore_dag(pipeline).get_task("restore")
    wanted = {"pipeline": "p", "from": asked["directory"], "dry_run": True}
    assert run(restore, conf=wanted).state == "skipped"
    assert checkpoint(2) is None
    assert "A form cannot restore" in str(run(restore, conf=wanted | {"dry_run": False}).error)
    assert checkpoint(2) is None
    both = run(restore, conf=wanted | {"to": "latest"})
    assert "Exactly one of the parameters to and from must be set" in str(both.error)
