"""The DAG that cleans up once a day: a mapped task for each pipeline, without a scheduler."""

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException
from dag_steps import complete
from worlds import MemorySink, small_pipeline

from tidegate.airflow import maintenance_dag
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import metadata_path

pytestmark = pytest.mark.usefixtures("database")

PROJECT = Path(__file__).parents[2]
STORED = "checkpoints"


@pytest.fixture
def made(pipeline):
    """Makes the DAG, as every task's process does: a run's parameters stay in it."""
    other = small_pipeline(MemorySink(), "other")
    return lambda: maintenance_dag(pipeline, other)


@pytest.fixture
def maintenance(made):
    return made()


@pytest.fixture
def clean(made, run, capsys):
    """`clean("p", dry_run=True)`: how the task of this pipeline ended, and what it logged."""

    def clean(name, **conf):
        task = made().get_task("clean").unmap({"pipeline": name})
        capsys.readouterr()
        return run(task, conf=conf or None), capsys.readouterr().out

    return clean


@pytest.fixture
def taken(dag, run, regions, good):
    complete(dag, run)


def test_it_runs_once_a_day_and_has_a_task_for_each_pipeline(maintenance):
    assert (maintenance.schedule, maintenance.catchup, maintenance.max_active_runs) == ("@daily", False, 1)
    assert maintenance.params["pipelines"] == ["p", "other"]
    assert maintenance.params["dry_run"] is False
    (task,) = maintenance.tasks
    assert task.is_mapped
    assert task.expand_input.value == {"pipeline": ["p", "other"]}


def test_the_projects_own_is_for_its_pipeline():
    dag = DagBag(dag_folder=PROJECT / "dags" / "tidegate_maintenance.py", safe_mode=True).dags["tidegate_maintenance"]
    assert dag.get_task("clean").expand_input.value == {"pipeline": ["flight_delays"]}


def test_what_is_kept_is_said_and_what_was_left_is_deleted(clean, taken, tmp_path, checkpoint):
    left = tmp_path / STORED / "p/chk-1/op/0-1-zombie.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left")
    ran, said = clean("p", dry_run=True)
    assert ran.state == "success", ran.error
    assert "Checkpoint 1 is kept (latest, retained): 0 files (0 bytes), of which 0 files (0 bytes) alone." in said
    assert "To be deleted: 1 file that nothing refers to, p/chk-1/op/0-1-zombie.parquet." in said
    assert left.exists()
    ran, said = clean("p")
    assert ran.state == "success", ran.error
    assert "Deleted: 1 file that nothing refers to, p/chk-1/op/0-1-zombie.parquet." in said
    assert "To be deleted" not in said
    assert not left.exists()
    assert checkpoint().status is Status.COMPLETED


def test_a_pipeline_that_the_form_does_not_name_is_skipped(clean, taken):
    ran, _ = clean("p", pipelines=["other"])
    assert ran.state == "skipped"


def test_damage_fails_the_task_at_once_and_is_named(clean, taken, tmp_path):
    metadata = tmp_path / STORED / metadata_path("p", 1)
    metadata.write_bytes(metadata.read_bytes() + b" ")
    ran, _ = clean("p")
    assert (ran.state, type(ran.error)) == ("failed", AirflowFailException)
    assert "differs from the committed one" in str(ran.error)
    assert "Nothing of pipeline p was deleted." in str(ran.error)


def test_a_pipeline_that_has_no_checkpoint_yet_keeps_nothing(clean):
    ran, said = clean("other")
    assert ran.state == "success", ran.error
    assert "Pipeline other keeps 0 files (0 bytes)." in said
