"""The Spark jobs of a continuous region: a micro-batch or what a snapshot stages, and the merging of runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tidegate.pipeline.graph import Graph
from tidegate.protocol.records import CompactedRun, Snapshot, SubtaskId
from tidegate.spark.compaction import compact_runs
from tidegate.spark.operators import run_station
from tidegate.spark.place import Place
from tidegate.spark.reports import Report
from tidegate.spark.stations import Answers, Station
from tidegate.spark.streams import Streams


class RegionJobs(Protocol):
    """What a continuous region does not do itself. Raises `CheckpointError`s."""

    def run(self, station: Station, answers: Answers) -> list[Report]:
        """Run what arrived at a station to its end, and stage what its tables lack."""
        ...

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot], below: str) -> list[CompactedRun]:
        """Merge runs where there are too many, into files below a directory."""
        ...


@dataclass(frozen=True, slots=True)
class SparkJobs:
    graph: Graph
    streams: Streams
    place: Place

    def run(self, station: Station, answers: Answers) -> list[Report]:
        return run_station(self.graph, self.streams, answers, station)

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot], below: str) -> list[CompactedRun]:
        return compact_runs(self.graph, self.streams, self.place, checkpoint_id, snapshots, below)
