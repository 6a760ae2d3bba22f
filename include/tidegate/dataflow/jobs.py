"""The port through which the drivers run operator chains. The processing of rows is not their concern."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import Report
from tidegate.pipeline.graph import Graph
from tidegate.ports import CheckpointStorage, Clock, Segment
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.records import CompactedRun, Snapshot, SubtaskId
from tidegate.protocol.steps.watermarks import EventTimes


@dataclass(frozen=True, slots=True)
class JobReported:
    """Reports of some subtasks. More may follow."""

    execution: Execution
    reports: list[Report]


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The end of a job, with the remaining reports; `error` if it failed."""

    execution: Execution
    reports: list[Report]
    error: CheckpointError | None = None


class JobsAtOnce(Protocol):
    """Jobs that run in parallel. Used from one thread only."""

    def start(self, execution: Execution, plan: ExecutionPlan) -> None:
        """Start to run the chain on the data that arrived, and return at once."""
        ...

    def news(self) -> Sequence[JobReported | JobEnded]:
        """Return the new reports of the started jobs, in order. Wait until there is one."""
        ...


class Jobs(Protocol):
    """The runner of operator chains. Its methods raise `CheckpointError`s that name the operator."""

    def run(self, execution: Execution, plan: ExecutionPlan) -> list[Report]:
        """Run the chain on the data that arrived, to completion, and stage the rows that its tables lack."""
        ...

    def event_times(
        self, segments: Mapping[SubtaskId, Segment], limits: Mapping[SubtaskId, int]
    ) -> Mapping[SubtaskId, EventTimes]:
        """Return the event times of each split's segment, in microseconds since 1970. Rows beyond a split's limit, if
        it has one, count as ahead. Raise `MalformedRowsError` if there are such rows and their source has no
        quarantine."""
        ...

    def fitting(self, restored: Mapping[SubtaskId, Snapshot]) -> Mapping[SubtaskId, Snapshot]:
        """Return the snapshots that subtasks start from, without the marks of sinks whose state has other columns than
        the definition has now: that state is staged again."""
        ...

    def at_once(self, name: str, most: int) -> AbstractContextManager[JobsAtOnce]:
        """Run up to `most` jobs in parallel. If the context is left with an error, interrupt the running jobs."""
        ...

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot], below: str) -> list[CompactedRun]:
        """Merge the runs of subtasks with too many, into files below a directory."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """The dependencies of a driver. `unique` makes a unique name, such as a UUID."""

    graph: Graph
    storage: CheckpointStorage
    jobs: Jobs
    clock: Clock
    unique: Callable[[], str]
