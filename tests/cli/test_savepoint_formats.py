"""`tidegate savepoint` and `stop` with `--format canonical`, cut short and repeated: no second savepoint is taken."""

import json

import pytest
from commands import CommandHere, environment_of

from tidegate import assembly
from tidegate.cli.exit_codes import ExitCode
from tidegate.protocol.facts.errors import StorageError
from tidegate.protocol.facts.records import Acknowledgement, Snapshot

PROJECT = """
[tool.tidegate.pipelines]
rows = "bare:pipeline"
"""
BARE = """
from tidegate import FileSource, ParquetSink, Pipeline

pipeline = Pipeline("rows")
rows = pipeline.source("rows", FileSource("landing", schema="n bigint"))
rows.sink("out", ParquetSink("out"))
"""


class Region:
    """Has nothing to read and nothing to write; `full` disks are its only trouble."""

    full = False

    def snapshot(self, task, acknowledge):
        acknowledge([Acknowledgement(subtask, attempt, Snapshot()) for subtask, attempt in task.attempts.items()])

    def compact(self, checkpoint_id, snapshots):
        return []

    def frame(self, target, subtasks, record):
        return None

    def export(self, record, location, rewrites, copies):
        if self.full:
            raise StorageError("The disk is full.")
        return {}


@pytest.fixture
def region(monkeypatch):
    found = Region()
    monkeypatch.setattr(assembly, "open_region", lambda pipeline: found)
    monkeypatch.setattr(assembly, "require_definition", lambda coordinator, region: None)
    return found


@pytest.fixture
def here(tmp_path, postgres_url, region):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "bare.py").write_text(BARE)
    return CommandHere(tmp_path, environment_of(tmp_path, postgres_url))


def known(here):
    listed = json.loads(here("savepoints", "rows", "-o", "json").stdout)
    return [(each["id"], each["name"], each["savepointFormat"]) for each in listed]


@pytest.mark.parametrize("name", [["--name", "kept"], []])
@pytest.mark.parametrize("to", [["--to", "saved"], []])
def test_one_that_was_cut_short_is_finished_by_the_same_command(here, region, tmp_path, name, to):
    asked = ("savepoint", "rows", "--format", "canonical", *name, *to)
    region.full = True
    failed = here(*asked)
    assert (failed.returncode, "Repeat the same command" in failed.stderr) == (ExitCode.ABORTED, True)
    called = name[1] if name else None
    assert known(here) == [(1, called, "NATIVE")]
    region.full = False
    finished = here(*asked)
    assert finished.returncode == ExitCode.OK, finished.stderr
    assert known(here) == [(1, called, "CANONICAL")]
    directory = tmp_path / ("saved" if to else ".tidegate/checkpoints/_savepoints/rows/chk-1")
    assert (directory / "_savepoint").is_file()
    assert f"is complete in {directory}: " in finished.stderr
    assert "canonical" in here("savepoints", "rows").stdout


def test_a_stop_that_was_cut_short_is_finished_too_and_a_later_one_stops_anew(here, region):
    asked = ("stop", "rows", "--format", "canonical")
    region.full = True
    assert here(*asked).returncode == ExitCode.ABORTED
    region.full = False
    finished = here(*asked)
    assert (finished.returncode, "is FINISHED" in finished.stderr) == (ExitCode.OK, True)
    assert known(here) == [(1, None, "CANONICAL")]
    assert here("resume", "rows").returncode == ExitCode.OK
    assert here(*asked).returncode == ExitCode.OK
    assert known(here) == [(1, None, "CANONICAL"), (2, None, "CANONICAL")]


def test_a_native_savepoint_becomes_canonical_and_what_makes_no_sense_is_refused(here, tmp_path):
    assert here("savepoint", "rows", "--name", "kept").returncode == ExitCode.OK
    assert here("savepoint", "rows", "--name", "kept", "--format", "canonical").returncode == ExitCode.OK
    assert known(here) == [(1, "kept", "CANONICAL")]
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes").write_text("mine")
    for arguments, said in (
        (("--to", "saved"), "--to needs --format canonical"),
        (("kept", "--format", "canonical"), "are for a new savepoint"),
        (("--format", "canonical", "--to", "full"), "already contains notes"),
        (("--format", "canonical", "--to", "s3://key:secret@bucket/x"), "credentials come from the environment"),
    ):
        refused = here("savepoint", "rows", *arguments)
        assert (refused.returncode, said in refused.stderr) == (ExitCode.USAGE, True), refused.stderr
    assert len(known(here)) == 1


def test_a_restore_says_where_from_in_one_way(here):
    here("savepoint", "rows", "--format", "canonical", "--to", "saved")
    for arguments, said in (
        (("--from", "saved", "--latest"), "Exactly one option must name the target"),
        (("--latest", "--claim-mode", "claim"), "--claim-mode and --relocate need --from"),
        (("--from", "nothing-here"), "has no marker _savepoint"),
        (("--from", "saved", "--claim-mode", "claim", "--yes"), "because savepoint 1 of this database is there"),
    ):
        refused = here("restore", "rows", *arguments)
        assert (refused.returncode, said in refused.stderr) == (ExitCode.USAGE, True), refused.stderr
    restored = here("restore", "rows", "--from", "saved", "--yes")
    assert restored.returncode == ExitCode.OK, restored.stderr
    assert "Its state is copied from" in restored.stdout
