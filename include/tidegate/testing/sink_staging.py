"""Tests of staging: how files are named, verified, listed, discarded, and read back for validation."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.ports import ArrowSink, HandleKind, PortableSink, SinkCommit, SinkInput, StagingSink, StateHandle
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.paths import attempt_prefix, checkpoint_name
from tidegate.testing.sink_trials import S, SinkTrials, kill
from tidegate.testing.trials import Rows, Trial, counted


class StagingTests(SinkTrials[S]):
    def test_it_says_what_it_is(self, tmp_path: Path) -> None:
        sink: Any = self.trial(tmp_path).sink
        assert sink.input in SinkInput, f"`input` is {sink.input!r}, which is not a SinkInput"
        assert sink.commits in SinkCommit, f"`commits` is {sink.commits!r}, which is not a SinkCommit"
        described = sink.describe()
        assert isinstance(described.get("type"), str), "describe() has no `type`"
        assert json.loads(json.dumps(described)) == described, "describe() is not JSON"
        assert sink.describe() == described, "describe() returns a different result the second time"

    def test_a_staged_file_is_named_after_its_checkpoint_subtask_and_attempt(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        named = set()
        for checkpoint_id, subtask, attempt in ((4, 0, 1), (4, 0, 1), (4, 0, 2), (4, 1, 1), (5, 0, 1)):
            staged = trial.stage(checkpoint_id, trial.some_rows(1), subtask, attempt)
            for handle in staged:
                *directories, name = handle.path.split("/")
                assert checkpoint_name(checkpoint_id) in directories, f"{handle.path} has no chk-{checkpoint_id}/"
                prefix = f"{attempt_prefix(subtask, attempt)}-"
                assert name.startswith(prefix), f"the name of {handle.path} does not begin with {prefix}"
                assert (handle.kind, handle.created_by) == (HandleKind.STAGED, checkpoint_id)
                assert handle.path not in named, f"{handle.path} was written twice"
            named |= {handle.path for handle in staged}

    def test_a_writer_travels_to_executors(self, tmp_path: Path) -> None:
        pickling = pytest.importorskip("pyspark.cloudpickle", reason="pyspark is not installed")
        trial = self.trial(tmp_path)
        trial.writer = pickling.loads(pickling.dumps(trial.sink.writer()))
        trial.commit(1, trial.stage(1, trial.some_rows(1, 2)))
        trial.check("After a commit of rows that a pickled writer staged")

    def test_staged_files_are_verified(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        staged = trial.stage(1, trial.some_rows(1, 2))
        paths = [handle.path for handle in staged]
        trial.sink.verify(staged, paths)
        for wrong in (replace(staged[0], bytes=staged[0].bytes + 1), replace(staged[0], checksum="0" * 64)):
            refused(trial, wrong, f"a file that should have {wrong.bytes} bytes and the checksum {wrong.checksum}")
        trial.sink.discard(paths)
        refused(trial, staged[0], "a file that is missing")

    def test_only_staged_files_are_discarded(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        third = trial.third()
        listed = trial.sink.staged_paths(3)
        own = [handle.path for handle in third if handle.created_by == 3]
        assert set(own) < set(listed), (
            f"staged_paths(3) is {listed}, but {own} and a file of another attempt are staged"
        )
        assert trial.sink.staged_paths(9) == [], "staged_paths of a checkpoint that staged nothing"
        self._listed(trial, 3)
        trial.commit(3, third)
        trial.sink.discard([*listed, *trial.sink.staged_paths(3)])
        trial.sink.discard(listed)
        trial.check("After everything that was staged by a committed checkpoint was discarded")
        assert trial.sink.staged_paths(3) == [], "staged_paths lists files that were discarded"

    def _listed(self, trial: Trial, checkpoint_id: int) -> None:
        if isinstance(trial.sink, StagingSink):
            found = trial.sink.staged_checkpoints()
            assert checkpoint_id in found, f"staged_checkpoints() is {found}, without checkpoint {checkpoint_id}"

    def test_staging_killed_anywhere_leaves_only_what_is_listed_and_discarded(self, tmp_path: Path) -> None:
        trial = self.trial(tmp_path)
        for step in self.steps(trial.sink.writer(), SecondStaging(trial)):
            trial = self.trial(tmp_path)
            trial.take(1, trial.some_rows(1))
            kill(step, trial.sink.writer(), SecondStaging(trial))
            trial.check(f"Killed before {step}")
            trial.sink.discard(trial.sink.staged_paths(2))
            left = trial.sink.staged_paths(2)
            if isinstance(trial.sink, StagingSink):
                left += [f"chk-{id_}/" for id_ in trial.sink.staged_checkpoints() if id_ == 2]
            assert not left, f"Killed before {step}, and staged_paths discarded: {left} is left"
            trial.take(2, trial.some_rows(2, 3))
            trial.check(f"Killed before {step}, and staged and committed again")

    def test_staged_rows_are_read_back_to_be_validated(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        """Read staged rows by Spark, if there is a fixture `spark` with a session, and by Arrow if the sink supports
        it.
        """
        trial = self.trial(tmp_path)
        staged = [*trial.stage(1, trial.some_rows(1, 2)), *trial.stage(1, trial.some_rows(3), subtask=1)]
        rows = trial.some_rows(1, 2, 3)
        ways = [name for name in ("arrow", "spark") if self._reads(trial, name, staged, rows, request)]
        if not ways:
            pytest.skip("the sink is not an ArrowSink, and there is no fixture `spark`")

    def _reads(
        self, trial: Trial, way: str, staged: Sequence[StateHandle], rows: Rows, request: pytest.FixtureRequest
    ) -> bool:
        if way == "arrow":
            reader = trial.sink.staged_rows(staged) if isinstance(trial.sink, ArrowSink) else None
            if reader is None:
                return False
            read = reader.to_table(self.schema.names).select(self.schema.names).to_pylist()
        else:
            try:
                spark = request.getfixturevalue("spark")
            except pytest.FixtureLookupError:
                return False
            assert trial.sink.read_staged(spark, []) is None, "read_staged of no files is not None"
            read = [row.asDict() for row in trial.sink.read_staged(spark, staged).select(self.schema.names).collect()]
        assert counted(read) == counted(rows), f"{way} reads back different rows: {read[:5]}"
        return True


class SecondStaging:
    """A subtask's staging of rows for a trial's second checkpoint."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial

    def __call__(self) -> None:
        self._trial.stage(2, self._trial.some_rows(2))


def refused(trial: Trial, handle: StateHandle, what: str) -> None:
    """Check that `verify` rejects a handle. A sink that stores no files compares rows by itself."""
    if not isinstance(trial.sink, PortableSink) and "missing" not in what:
        return
    try:
        trial.sink.verify([handle], [handle.path])
    except StateIntegrityError:
        return
    raise AssertionError(f"verify accepts {what}")
