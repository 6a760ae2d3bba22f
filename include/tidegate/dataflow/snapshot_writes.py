"""The background writes of the rows that sinks stage for a snapshot of a continuous region, so that rows keep flowing.

This is the asynchronous part of protocol.md section 12. The contents were frozen at the barrier. The loop takes the
results, so everything else stays in its one thread.
"""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace

from tidegate.dataflow.jobs import Jobs
from tidegate.dataflow.reports import Report, joined
from tidegate.dataflow.running import PendingSnapshot, RunningChain
from tidegate.protocol.continuous.overlap import FOLLOWS
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.subtask.messages import WriteEnded, WriteFailed


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    vertex: RunningChain
    pending: PendingSnapshot
    reports: "Future[list[Report]]"


class SnapshotWrites:
    """The pending writes of one region, run by a background executor."""

    def __init__(self, jobs: Jobs, background: Executor) -> None:
        self._jobs = jobs
        self._background = background
        self._under_way: list[_Write] = []

    def __bool__(self) -> bool:
        """Return whether anything is being written."""
        return bool(self._under_way)

    def start(self, vertex: RunningChain, pending: PendingSnapshot) -> None:
        """Begin to write a snapshot, and return at once."""
        reports = self._background.submit(_write, self._jobs, pending)
        self._under_way.append(_Write(vertex, pending, reports))

    def under_way(self) -> list[PendingSnapshot]:
        """Return the snapshots being written."""
        return [write.pending for write in self._under_way]

    def ended(self) -> Iterator[tuple[RunningChain, WriteEnded | WriteFailed]]:
        """Yield the writes that have ended, and the failed ones. Errors other than `CheckpointError`s are raised."""
        done = [write for write in self._under_way if write.reports.done()]
        self._under_way = [write for write in self._under_way if write not in done]
        for write in done:
            yield write.vertex, _event_of(write)


def _write(jobs: Jobs, pending: PendingSnapshot) -> list[Report]:
    """Write all versions, one after the other."""
    reports = []
    for execution, follows in pending.versions():
        written = jobs.run(execution, pending.plan)
        reports += written if follows is None else [_of_version(follows, report) for report in written]
    return joined(reports)


def _of_version(follows: tuple[int, int | None], report: Report) -> Report:
    """Mark a report's files with the checkpoints that they follow. Count rows only in the most likely version, in which
    all earlier checkpoints complete."""
    details = {FOLLOWS: list(follows)}
    handles = tuple(replace(handle, details={**handle.details, **details}) for handle in report.handles)
    is_counted = follows[1] is None
    metrics = {name: n for name, n in report.metrics.items() if is_counted or not name.startswith("rows")}
    return replace(report, handles=handles, metrics=metrics)


def _event_of(write: _Write) -> WriteEnded | WriteFailed:
    """Record the result with its snapshot, which may have been discarded by now, and return the event."""
    checkpoint_id = write.pending.plan.checkpoint_id
    try:
        write.pending.execution.record(write.reports.result())
    except CheckpointError as error:
        if write.vertex.pending.get(checkpoint_id) is write.pending:
            write.vertex.trouble[checkpoint_id] = str(error)
        return WriteFailed(checkpoint_id, error.reason)
    return WriteEnded(checkpoint_id)
