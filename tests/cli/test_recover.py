"""`tidegate recover` as a user runs it, into an empty database: what it shows, asks and refuses."""

import json
import shutil

import pytest
from commands import CommandHere, environment_of
from worlds import Judge

from tidegate import assembly
from tidegate.cli.exit_codes import ExitCode
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.postgres.engine import connect
from tidegate.postgres.migrate import upgrade
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.records import Acknowledgement, Snapshot
from tidegate.state.storage import ArrowCheckpointStorage

PROJECT = """
[tool.tidegate.pipelines]
rows = "bare:pipeline"
"""
BARE = """
from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline

pipeline = Pipeline("rows", checkpoints=CheckpointConfig(retained=5))
rows = pipeline.source("rows", FileSource("landing", schema="n bigint"))
rows.sink("out", ParquetSink("out"))
"""


class Empty:
    """A region that has nothing to read."""

    def snapshot(self, task, acknowledge):
        acknowledge([Acknowledgement(subtask, attempt, Snapshot()) for subtask, attempt in task.attempts.items()])

    def compact(self, checkpoint_id, snapshots):
        return []


@pytest.fixture
def project(tmp_path, monkeypatch, postgres_url, postgres_server):
    """Three checkpoints of `rows`, the last of which has no marker, and a database of its own for the recovery."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "bare.py").write_text(BARE)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline = assembly.load_pipeline("bare:pipeline")
    store = PostgresCheckpointStore(connect(postgres_url))
    storage = ArrowCheckpointStorage(str(tmp_path / ".tidegate/checkpoints"))
    coordinator = CheckpointCoordinator(pipeline, store, storage, assembly.SystemClock())
    for number in (1, 2, 3):
        coordinator.trigger(f"r{number}")
        coordinator.snapshot(number, Empty())
        coordinator.validate(number, Judge(True))
        coordinator.finalize(number)
        if number < 3:
            coordinator.notify(number)
    store.close()
    empty = f"{tmp_path.name.replace('-', '_')}_empty"
    postgres_server.create_database(empty)
    upgrade(postgres_server.url(empty))
    return environment_of(tmp_path, postgres_server.url(empty))


@pytest.fixture
def here(tmp_path, project):
    return CommandHere(tmp_path, project)


def words(text):
    return " ".join(text.split())


def test_the_plan_is_shown_and_changes_nothing_and_yes_carries_it_out(here):
    shown = here("recover", "rows", "--dry-run")
    assert shown.returncode == ExitCode.OK, shown.stderr
    assert "Pipeline rows continues from checkpoint 2" in words(shown.stdout)
    assert "left out unless --include-doubtful names them: 3" in words(shown.stdout)
    assert here("checkpoints", "rows").returncode == ExitCode.NOT_FOUND
    document = json.loads(here("recover", "rows", "--dry-run", "-o", "json").stdout)
    assert [each["id"] for each in document["checkpoints"]] == [1, 2]
    assert [each["id"] for each in document["in_doubt"]] == [3]
    assert (document["latest_checkpoint"], document["last_checkpoint_id"], document["moved"]) == (2, 3, [])
    asked = here("recover", "rows")
    assert asked.returncode != ExitCode.OK
    done = here("recover", "rows", "--yes")
    assert (done.returncode, words(done.stderr)) == (ExitCode.OK, "Pipeline rows was recovered to checkpoint 2.")
    history = json.loads(here("checkpoints", "rows", "-o", "json").stdout)
    assert [(each["id"], each["status"], each["request_id"]) for each in history] == [
        (2, "COMPLETED", "r2"),
        (1, "COMPLETED", "r1"),
    ]
    again = here("recover", "rows", "--yes")
    assert again.returncode == ExitCode.USAGE
    assert "already knows checkpoints of pipeline rows" in words(again.stderr)


def test_one_in_doubt_is_included_if_it_is_named(here):
    refused = here("recover", "rows", "--include-doubtful", "9", "--yes")
    assert refused.returncode == ExitCode.USAGE
    assert "Checkpoint 9 is not in doubt" in words(refused.stderr)
    done = here("recover", "rows", "--include-doubtful", "3", "--yes")
    assert words(done.stderr) == "Pipeline rows was recovered to checkpoint 3."


def test_another_storage_is_named_for_the_commands_that_follow(here, tmp_path):
    shutil.move(tmp_path / ".tidegate/checkpoints", tmp_path / "saved")
    nothing = here("recover", "rows", "--yes")
    assert nothing.returncode == ExitCode.USAGE
    assert "check TIDEGATE_STORAGE, or add --from URL" in words(nothing.stderr)
    done = here("recover", "rows", "--from", "saved", "--yes")
    assert done.returncode == ExitCode.OK, done.stderr
    assert "From now on, set TIDEGATE_STORAGE=saved." in words(done.stderr)


def test_a_committed_checkpoint_is_given_up_only_with_a_word(here, tmp_path):
    metadata = tmp_path / ".tidegate/checkpoints/rows/chk-2/_metadata"
    metadata.write_bytes(metadata.read_bytes()[:100])
    refused = here("recover", "rows", "--yes")
    assert refused.returncode == ExitCode.USAGE
    assert "rows/chk-2/_metadata is not JSON" in words(refused.stderr)
    done = here("recover", "rows", "--withdraw", "--yes")
    assert words(done.stderr) == "Pipeline rows was recovered to checkpoint 1."
