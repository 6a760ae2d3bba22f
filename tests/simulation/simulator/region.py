"""A region without Spark: the real driver of scheduled runs, around operators that are plain Python (`simulator.jobs`).

Between it and the coordinator lies a network that loses calls, repeats them, and delivers some long after.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simulator.jobs import SimulatedJobs
from simulator.live_files import misses_a_file
from tidegate.dataflow.jobs import Parts
from tidegate.dataflow.scheduled_driver import ScheduledDriver
from tidegate.pipeline.graph import Graph
from tidegate.ports import Acknowledger
from tidegate.protocol.facts.errors import StateIntegrityError, StoreUnavailableError
from tidegate.protocol.facts.records import Acknowledgement, AcknowledgeResult, CompactedRun, Snapshot, SubtaskId
from tidegate.protocol.steps.snapshot import SnapshotTask

if TYPE_CHECKING:
    from simulator.world import World


class SimulatedRegion:
    """`ports.Region`. Made for one call, as a process of its own."""

    def __init__(self, world: "World", graph: Graph) -> None:
        self.world = world
        self.jobs = SimulatedJobs(world, graph)
        self.parts = Parts(graph, world.storage, self.jobs, world.clock, world.name)

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledger) -> None:
        self.world.messages.asks(task)
        self._task = task
        self._acknowledge = acknowledge
        try:
            ScheduledDriver(self.parts, task, self.report).execute()
        except StateIntegrityError as error:
            misses_a_file(self.world, task, error)
            raise

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        return self.jobs.compact(checkpoint_id, snapshots, f"{self.parts.graph.pipeline.name}/chk-{checkpoint_id}")

    def report(self, acks: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
        """Acknowledge over the network."""
        if self.world.strikes("lost_report"):
            self.world.note("loses a report")
            raise StoreUnavailableError("the report was lost")
        if self.world.strikes("late_report"):
            self.world.late_reports.append((self._task.checkpoint_id, list(acks)))
        results = self._acknowledge(acks)
        self.world.messages.answers(self._task.checkpoint_id, acks, results)
        if self.world.strikes("repeated_report"):
            results = self._acknowledge(acks)
            self.world.messages.answers(self._task.checkpoint_id, acks, results)
        return results

    def frame(self, target: str, subtasks: object, record: object) -> None:
        return None
