"""`tidegate.read`: find one checkpoint that all tables can be read as of, and the rows of each table at it.

The database is read as of one moment, without a lock, and directories are read after it. A second read of the
database shows whether rows may have moved in between. They move only with a restore, and are deleted only when no
restore needs them.
"""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from tidegate.assembly import open_readings
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import ReadableAtSink
from tidegate.protocol.facts.errors import (
    CheckpointInDoubtError,
    CheckpointNotRetainedError,
    ConfigurationError,
    OperatorNotFoundError,
    SinkError,
)
from tidegate.protocol.text.durations import duration
from tidegate.reading.cuts import TablesAt
from tidegate.tables.described import sink_of
from tidegate.tables.result import Tables
from tidegate.tables.rows import Rows

if TYPE_CHECKING:
    from tidegate.reading.readings import Readings

#: How long a read tries again when it meets a commit or a restore, and the pause between two tries, in seconds.
_PATIENCE, _PAUSE = 5.0, 0.1


def read(
    pipeline: Pipeline | str,
    *sinks: str,
    checkpoint: int | Literal["latest"] = "latest",
    wait: str | timedelta | None = None,
) -> Tables:
    """Find tables of a pipeline as of one checkpoint, whatever each of them currently shows.

    By default this is the newest checkpoint that all of them show. While a new one becomes visible, that is the
    previous one. Sinks in the commit show a checkpoint as soon as it has completed. After a restore it is the
    restored one.

    Args:
        pipeline: The name of the pipeline, or the pipeline itself, which is needed for sinks of your own.
        sinks: The names of the sinks; by default all.
        checkpoint: The id of another checkpoint. It may be one that a restore has abandoned, as long as it is retained.
        wait: How long to wait, such as `"30 s"`, until all of them show the latest completed checkpoint, or
            the given one.

    Returns:
        The tables, which are not read yet.

    Raises:
        PipelineNotFoundError: If there is no such pipeline.
        CheckpointNotFoundError: If there is no such checkpoint, or none that all sinks show.
        CheckpointNotRetainedError: If a table cannot be read as of it: it did not complete, or newer ones have replaced
            it.
        CheckpointInDoubtError: If a sink does not show it yet, or not within that time.
        OperatorNotFoundError: If the checkpoint has no such sink.
        ConfigurationError: If a sink cannot be read as of a checkpoint, or not without the pipeline itself.
        SinkError: If a table does not exist.

    Example:
        `tidegate.read("shop", "orders", "customers").pandas()["orders"]`
    """
    name, defined = (pipeline, {}) if isinstance(pipeline, str) else (pipeline.name, _sinks_of(pipeline))
    finding = _Finding(name, sinks, defined, _checked(checkpoint), None if wait is None else duration(wait))
    with closing(open_readings()) as readings:
        at, rows = finding.find(readings)
    again = replace(finding, wanted=at.checkpoint_id)
    return Tables(name, at.checkpoint_id, at.completed_at, rows, again.find_again)


def _sinks_of(pipeline: Pipeline) -> dict[str, object]:
    return {vertex.name: vertex.sink for vertex in compile_graph(pipeline).sinks}


def _checked(checkpoint: object) -> int | None:
    if checkpoint == "latest":
        return None
    if isinstance(checkpoint, int) and not isinstance(checkpoint, bool):
        return checkpoint
    raise ConfigurationError(f'checkpoint is the id of a checkpoint or "latest", and not {checkpoint!r}.')


@dataclass(frozen=True)
class _Finding:
    """One call of `read`. `defined` are the sinks of a pipeline whose code is available. Without `wanted`, it reads the
    latest checkpoint, and without `wait`, the one that all sinks show already."""

    pipeline: str
    names: tuple[str, ...]
    defined: Mapping[str, object]
    wanted: int | None
    wait: timedelta | None

    def find(self, readings: "Readings") -> tuple[TablesAt, dict[str, Rows]]:
        """Find the checkpoint and the rows of its tables. Raises as `read`."""
        begun, target = time.monotonic(), self.wanted
        until = begun + (self.wait or timedelta(0)).total_seconds()
        patient = max(until, begun + _PATIENCE)
        while True:
            if self.wanted is None and self.wait is not None:
                target = self._newest(readings, target)
            try:
                return self._find(readings, target)
            except CheckpointInDoubtError:
                if time.monotonic() >= (patient if target is None else until):
                    raise
            except CheckpointNotRetainedError:  # another checkpoint is the latest by now
                if self.wanted is not None or time.monotonic() >= patient:
                    raise
                target = None
            except FileNotFoundError as error:
                if time.monotonic() >= patient:
                    raise _missing(self.pipeline, error) from error
            time.sleep(_PAUSE)

    def find_again(self) -> dict[str, Rows]:
        with closing(open_readings()) as readings:
            return self.find(readings)[1]

    def _newest(self, readings: "Readings", target: int | None) -> int | None:
        """Return the checkpoint to wait for: the first latest one, unless a restore has returned to an earlier one."""
        newest = readings.newest_completed(self.pipeline)
        return newest if target is None or newest is None else min(target, newest)

    def _find(self, readings: "Readings", target: int | None) -> tuple[TablesAt, dict[str, Rows]]:
        at = readings.tables_at(self.pipeline, target, self.names)
        rows = {name: self._rows(at, name) for name in self.names or at.sinks}
        if readings.tables_at(self.pipeline, at.checkpoint_id, self.names).restores != at.restores:
            raise FileNotFoundError("the pipeline was restored meanwhile")
        return at, rows

    def _rows(self, at: TablesAt, name: str) -> Rows:
        known = at.sinks.get(name)
        if known is None:
            raise OperatorNotFoundError(
                f"Checkpoint {at.checkpoint_id} of pipeline {self.pipeline!r} has no sink {name!r}. Nothing was read. "
                f"Its sinks: {', '.join(at.sinks) or 'none'}."
            )
        sink = self.defined[name] if name in self.defined else sink_of(self.pipeline, known)
        if not isinstance(sink, ReadableAtSink):
            raise ConfigurationError(
                f"Sink {name!r} of pipeline {self.pipeline!r} is a {type(sink).__name__}, which cannot be read as of a "
                "checkpoint. Nothing was read. Name the sinks that can. A sink of your own needs the method `read_at` "
                "(tidegate.ports.ReadableAtSink)."
            )
        return sink.read_at(at.checkpoint_id, at.branch, known.staged)


def _missing(pipeline: str, error: FileNotFoundError) -> SinkError:
    return SinkError(
        f"A table of pipeline {pipeline!r} cannot be read: {error} is missing, although the rows of this checkpoint "
        "are kept. Nothing was changed. Check that no files of the table were deleted by hand, and that its directory "
        "is mounted."
    )
