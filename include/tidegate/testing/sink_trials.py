"""The methods that a subclass of `SinkSuite` overrides, and the trial of one sink."""

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pytest

from tidegate.ports import OwnedSink, PlacedSink, Sink, SinkCommit
from tidegate.protocol.recovery.ownership import Owner
from tidegate.testing.deliveries import AfterTheCommit, Delivery, InTheCommit, KitServer
from tidegate.testing.processes import Step, Stopped, Work, code_of, killed_before, steps_of
from tidegate.testing.trials import Rows, Trial

S = TypeVar("S", bound=Sink)

#: One second: another process may have stopped while it holds a lock.
_IMPATIENT = "options=-c%20lock_timeout%3D1000"
#: No two directories of a process have the same name, so a table can be named after one.
_NUMBERS = count(1)


class SinkTrials(Generic[S]):
    """The part of `SinkSuite` that a subclass fills in. `SinkSuite` has the docstring."""

    schema: pa.Schema = pa.schema({"k": pa.int64(), "v": pa.string()})
    other_columns: bool = True
    nulls: bool = True
    many: int = 100_000
    every: int = 1
    may_wait: bool = False
    _afterwards: bool = False  # whether `commit` is tested of a sink that is in the commit

    def sink(self, directory: Path) -> S:
        """Make a sink with a place of its own.

        Args:
            directory: An empty directory for the sink. Its name is unique, so a table can be named after it.

        Returns:
            The sink, before its first commit.
        """
        raise NotImplementedError(f"{type(self).__name__}.sink is missing. It has to make the sink.")

    def shown(self, sink: S) -> Rows:
        """Read the sink's rows as its readers do.

        Args:
            sink: The sink that `sink` returned.

        Returns:
            Rows with the columns of the staged rows, in any order.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.shown is missing. It has to read the rows that the sink shows."
        )

    def row(self, number: int) -> Mapping[str, Any]:
        """Make a row of `schema`, a different one for each number.

        Args:
            number: The number.

        Returns:
            The row.
        """
        return {"k": number, "v": f"row {number}"}

    @pytest.fixture(autouse=True)
    def _home(self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make `tmp_path` the project's home. Sinks without a directory of their own stage below it."""
        monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
        monkeypatch.delenv("TIDEGATE_STORAGE", raising=False)
        self._request, self._monkeypatch = request, monkeypatch

    def _delivery(self, sink: Any, name: str) -> Delivery:
        if sink.commits is not SinkCommit.IN_THE_COMMIT:
            return AfterTheCommit()
        server = self._server()
        self._monkeypatch.setenv("TIDEGATE_DATABASE_URL", f"{server.running_url()}?{_IMPATIENT}")
        return AfterTheCommit() if self._afterwards else InTheCommit(server, name)

    def _server(self) -> KitServer:
        """Return the server of the class. It starts with the first test that has a sink in the commit."""
        kind: Any = type(self)
        if "_started" not in vars(kind):
            kind._started = KitServer()
            self._request.node.getparent(pytest.Class).addfinalizer(lambda: kind._started.remove())
        server: KitServer = kind._started
        return server

    def trial(self, tmp_path: Path, schema: pa.Schema | None = None, marked: bool = True) -> Trial:
        """Make a sink under trial, in a new place.

        Args:
            tmp_path: The directory in which places are created.
            schema: The columns of its rows, if they differ from the suite's.
            marked: Whether its place has its owner's mark, for a sink whose place has an owner.

        Returns:
            The trial.
        """
        directory = tmp_path / f"sink_{next(_NUMBERS)}"
        directory.mkdir()
        sink: Any = self.sink(directory)
        if isinstance(sink, PlacedSink):
            sink = sink.placed("kit", directory.name)
        delivery = self._delivery(sink, directory.name)
        if marked and isinstance(sink, OwnedSink):
            sink.mark(Owner("kit", directory.name, "kit"))
        return Trial(sink, directory, schema or self.schema, self.row, self.shown, delivery)

    def steps(self, thing: object, work: Work) -> list[Step]:
        """Find the lines of a class's package that some work runs.

        Args:
            thing: An object of the class.
            work: The work, which runs once, in a process of its own.

        Returns:
            The lines before which it is to be interrupted.
        """
        code = code_of(thing)
        steps = steps_of(work, code)
        assert steps, f"No line of {', '.join(code)} was run. Is the code of {type(thing).__name__} elsewhere?"
        return steps[:: self.every]


def kill(step: Step, thing: object, work: Work) -> None:
    """Do some work in a process that is killed before the step."""
    ended = killed_before(step, work, code_of(thing))
    assert not ended.error, f"This failed before it was killed before {step}:\n{ended.error}"


def stop(step: Step, thing: object, work: Work) -> Stopped:
    """Do some work in a process that stops before the step."""
    return Stopped(step, work, code_of(thing))
