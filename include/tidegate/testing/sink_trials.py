"""What a subclass of `SinkSuite` says of its sink, and how one is put on trial."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pytest

from tidegate.ports import CommitAttempt, PlacedSink, Sink, StateHandle
from tidegate.testing.processes import Step, Stopped, Work, code_of, killed_before, steps_of
from tidegate.testing.trials import Rows, Trial

S = TypeVar("S", bound=Sink)


class SinkTrials(Generic[S]):
    """The part of `SinkSuite` that a subclass fills in. `SinkSuite` has the docstring."""

    schema: pa.Schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    other_columns: bool = True
    nulls: bool = True
    many: int = 100_000
    every: int = 1
    may_wait: bool = False

    def sink(self, directory: Path) -> S:
        """Make a sink with a place of its own: other sinks of a test have other ones.

        Args:
            directory: An empty directory that it may use.

        Returns:
            The sink, of which nothing was committed yet.
        """
        raise NotImplementedError(f"{type(self).__name__}.sink is missing: it makes the sink.")

    def shown(self, sink: S) -> Rows:
        """Read what readers see, as they do.

        Args:
            sink: What `sink` returned.

        Returns:
            Rows with the columns of what was staged, in any order.
        """
        raise NotImplementedError(f"{type(self).__name__}.shown is missing: it reads what the sink shows.")

    def row(self, number: int) -> Mapping[str, Any]:
        """Make a row of `schema`, a different one for each number.

        Args:
            number: The number.

        Returns:
            The row.
        """
        return {"k": number, "v": f"row {number}"}

    def commit(self, sink: S, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        """Commit a checkpoint. A sink that is in the commit overrides this to run what it prepares.

        Args:
            sink: The sink.
            checkpoint_id: The checkpoint.
            staged: What it staged.
            attempt: The attempt at committing.
        """
        sink.commit(checkpoint_id, staged, attempt)

    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sinks without a directory of their own stage below it."""
        monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
        monkeypatch.delenv("TIDEGATE_STORAGE", raising=False)

    def trial(self, tmp_path: Path, schema: pa.Schema | None = None) -> Trial:
        """Make a sink under trial, in a new place.

        Args:
            tmp_path: Where places are made.
            schema: The columns of its rows, if not those of the suite.

        Returns:
            The trial.
        """
        directory = tmp_path / f"sink-{len(list(tmp_path.glob('sink-*')))}"
        directory.mkdir()
        sink: Any = self.sink(directory)
        if isinstance(sink, PlacedSink):
            sink = sink.placed("kit", directory.name)
        return Trial(sink, directory, schema or self.schema, self.row, self.shown, self.commit)

    def steps(self, thing: object, work: Work) -> list[Step]:
        """Find the lines of a class's package that some work runs.

        Args:
            thing: An object of the class.
            work: The work, which is done once, in a process of its own.

        Returns:
            The lines before which it is to be interrupted.
        """
        code = code_of(thing)
        steps = steps_of(work, code)
        assert steps, f"No line of {', '.join(code)} was run: is the code of {type(thing).__name__} elsewhere?"
        return steps[:: self.every]


def kill(step: Step, thing: object, work: Work) -> None:
    """Do some work in a process that is killed before the step."""
    ended = killed_before(step, work, code_of(thing))
    assert not ended.error, f"This failed before it was killed before {step}:\n{ended.error}"


def stop(step: Step, thing: object, work: Work) -> Stopped:
    """Do some work in a process that stops before the step."""
    return Stopped(step, work, code_of(thing))
