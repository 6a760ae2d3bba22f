"""The port through which the drivers run operator chains. What a chain does with its rows is not their concern."""

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
    """Some subtasks are done; more may follow."""

    execution: Execution
    reports: list[Report]


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The end of a job, with what was not reported before; `error` if it failed."""

    execution: Execution
    reports: list[Report]
    error: CheckpointError | None = None


class JobsAtOnce(Protocol):
    """Jobs that run in parallel. Used from one thread only."""

    def start(self, execution: Execution, plan: ExecutionPlan) -> None:
        """Start to run what arrived, and return at once."""
        ...

    def news(self) -> Sequence[JobReported | JobEnded]:
        """What the started jobs have newly reported, in order. Waits until there is something."""
        ...


class Jobs(Protocol):
    """Runs operator chains. Raises `CheckpointError`s that name the operator."""

    def run(self, execution: Execution, plan: ExecutionPlan) -> list[Report]:
        """Run what arrived to completion, and stage what the chain's tables lack."""
        ...

    def event_times(
        self, segments: Mapping[SubtaskId, Segment], limits: Mapping[SubtaskId, int]
    ) -> Mapping[SubtaskId, EventTimes]:
        """The event times of each split's segment, in microseconds since 1970. Rows beyond a split's limit, if it has
        one, are ahead. Raises `MalformedRowsError` if there are such and their source has no quarantine."""
        ...

    def fitting(self, restored: Mapping[SubtaskId, Snapshot]) -> Mapping[SubtaskId, Snapshot]:
        """What subtasks start from, without what sinks have of a state in other columns than the definition has now:
        that is staged again."""
        ...

    def at_once(self, name: str, most: int) -> AbstractContextManager[JobsAtOnce]:
        """Run up to `most` jobs in parallel. When the context is left with an error, running jobs are interrupted."""
        ...

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot], below: str) -> list[CompactedRun]:
        """Merge runs where there are too many, into files below a directory."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a driver needs. `unique` makes a unique name, such as a UUID."""

    graph: Graph
    storage: CheckpointStorage
    jobs: Jobs
    clock: Clock
    unique: Callable[[], str]
