"""The parts common to both drivers: the chains of a pipeline, the channels between them, and the finished subtasks."""

from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.channels import Channels
from tidegate.dataflow.elements import milliseconds
from tidegate.dataflow.in_flight import in_flight_of
from tidegate.dataflow.jobs import Parts
from tidegate.dataflow.operator_chains import OperatorChain, build_chains
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import Clock
from tidegate.protocol.barriers.messages import Barrier, BarrierOptions, EndOfPartition
from tidegate.protocol.facts.records import Snapshot, SubtaskId
from tidegate.protocol.steps.finished import finished_operators
from tidegate.protocol.steps.in_flight import without_channel
from tidegate.protocol.steps.refusal import require_none
from tidegate.protocol.steps.snapshot import SnapshotTask


@dataclass(frozen=True, slots=True)
class Began:
    """The start of a driver on both clocks. Gates measure on the monotonic one."""

    wall: datetime
    monotonic: float

    @classmethod
    def now(cls, clock: Clock) -> "Began":
        return cls(clock.now(), clock.monotonic())

    def wall_time(self, monotonic: float) -> datetime:
        return self.wall + timedelta(seconds=monotonic - self.monotonic)


@dataclass(eq=False)
class DriverBase:
    """Chains and channels. `finished` are the subtasks that finished with a completed checkpoint."""

    parts: Parts
    apart: Container[SinkVertex] = ()
    chains: list[OperatorChain] = field(init=False)
    channels: Channels = field(init=False)
    finished: set[SubtaskId] = field(default_factory=set)
    began: Began = field(init=False)

    def __post_init__(self) -> None:
        self.chains = build_chains(self.parts.graph, self.parts.clock, self.apart)
        self.channels = Channels(self.chains)
        self.began = Began.now(self.parts.clock)

    def put_back(self, restored: Mapping[SubtaskId, Snapshot]) -> None:
        """Put the in-flight data of an unaligned checkpoint back into its channels, ahead of anything else.

        Raise `StateSchemaError` if a channel no longer exists.
        """
        for chain in self.chains:
            for channel, data in in_flight_of(restored.get(SubtaskId(chain.vertex.operator_id, 0))):
                if channel not in chain.gate.channels:
                    pipeline_id, operator_id = self.parts.graph.pipeline.name, chain.vertex.operator_id
                    require_none([without_channel(pipeline_id, str(channel), operator_id)])
                chain.gate.offer(chain.gate.channels.index(channel), data)

    def restore_watermarks(self, restored: Mapping[SubtaskId, Snapshot]) -> None:
        """Let each chain continue from the watermarks of its inputs in the snapshots."""
        for chain in self.chains:
            chain.watermarks.restore(restored.get(SubtaskId(chain.vertex.operator_id, 0)))

    def close(self, finished: Set[SubtaskId]) -> None:
        """End the channels of newly finished subtasks, which send no more barriers (protocol.md section 13)."""
        graph, before = self.parts.graph, self.finished_operators()
        for source in graph.sources:
            for split in range(source.source.num_splits()):
                if SubtaskId(source.operator_id, split) in finished - self.finished:
                    self.channels.signal(ChannelName(source.name, split), EndOfPartition)
        self.finished |= finished
        for vertex in graph.producers:
            if vertex.operator_id in self.finished_operators() - before:
                self.channels.signal(ChannelName(vertex.name), EndOfPartition)

    def finished_operators(self) -> frozenset[str]:
        """Return the operators and sources whose subtasks have all finished."""
        return finished_operators(self.parts.graph.plan, {id_: Snapshot(finished=True) for id_ in self.finished})


def barrier(task: SnapshotTask, options: BarrierOptions, index: int = 0) -> Barrier:
    """Return the barrier of a checkpoint for the channel with this index at a gate."""
    return Barrier(task.checkpoint_id, index, options, milliseconds(task.triggered_at))
