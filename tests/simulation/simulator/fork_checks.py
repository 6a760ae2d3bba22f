"""What must hold of a fork: it happens at most once, from what somebody has named, and its first checkpoint has exactly
what the original's had, in files of its own, and nothing of what the original's tables show.

Decided by what was asked for, what is recorded, and the history that the original's observer keeps.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from simulator.history import Moment
from simulator.observer import Observer
from simulator.scheduler import Process, require
from simulator.stops import check_finished
from tidegate.pipeline.graph import Graph
from tidegate.ports import SinkInput
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import directory
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, HandleKind, Snapshot, SubtaskId

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.forked import Forked


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """What somebody says: `--checkpoint ID`, `--savepoint NAME` or its number, `--from URL`, or `--latest`. The first
    three mean the original's checkpoint `checkpoint_id`."""

    option: str
    value: Any = None
    checkpoint_id: int | None = None

    def __str__(self) -> str:
        return f"fork {self.option}" + (f" {self.value}" if self.value else "")


class ForkObserver(Observer):
    """The witness of a pipeline that may be forked. `wanted`: what each process was to fork it from; `read`: what each
    has last read of the original; `forked_as`: the checkpoint that is the fork."""

    def __init__(self, world: "Forked", graph: Graph) -> None:
        super().__init__(world, graph)
        self.read: dict[Process | None, PipelineState] = {}
        self.forked_as: int | None = None

    def committed(self, before: "PipelineState", after: "PipelineState") -> None:
        new = [record for id_, record in after.checkpoints.items() if id_ not in before.checkpoints]
        if any(record.completed_at for record in new):
            self._forked(before, after)
        else:
            super().committed(before, after)

    def meant(self, process: Process | None) -> int | None:
        """The checkpoint of the original that a process was to begin with."""
        wanted = self.wanted.get(process)
        require(isinstance(wanted, ForkedFrom), f"nobody has asked for a fork to {self.world.pipeline_id}")
        if wanted.option != "--latest":
            return wanted.checkpoint_id
        latest = self.world.original.observer.history.latest_in(self.read[process])
        return None if latest is None else latest.checkpoint_id

    def _forked(self, before: "PipelineState", after: "PipelineState") -> None:
        world, history = self.world, self.world.original.observer.history
        origin = self.meant(world.scheduler.current)
        require(not before.checkpoints, f"a fork to what has checkpoints already: {list(before.checkpoints)}")
        (record,) = after.checkpoints.values()
        known = history.lost | world.original.store.state.checkpoints
        require(origin in known, f"{record} was forked from {origin}, which is not there")
        check_record(world, record, known[origin], before, after)
        snapshots = {id_: each.snapshot for id_, each in after.subtasks[record.checkpoint_id].items()}
        moment = history.moments[origin]
        self.history.lost = {id_: known[id_] for id_ in moment.branch if id_ in known}
        check_files(world, record, snapshots)
        check_finished(world, record, snapshots, new_tables=True)
        read = {
            subtask: pieces
            for source in world.sources.values()
            for subtask, pieces in source.pieces_in(snapshots, world.storage.files).items()
        }
        require(read == moment.read, f"{record.request_id} has read {read}, but checkpoint {origin} {moment.read}")
        for vertex in world.graph.keyed:
            state, expected = (
                world.comparison.state_of(vertex.operator_id, snapshots, moment.states),
                moment.states[vertex.name],
            )
            require(state == expected, f"{record.request_id} has {state} of {vertex.name} instead of {expected}")
        for name, sink in world.sinks.items():
            require(not sink.rows(), f"the table of {name} is to begin empty, and shows {sink.rows()}")
        self._begin(record.checkpoint_id, moment)

    def _begin(self, id_: int, moment: Moment) -> None:
        """From here on it is a pipeline like any other, which is to show the current rows of that moment."""
        tables = {
            name: moment.outputs[name] if sink.input is SinkInput.CURRENT else []
            for name, sink in self.world.sinks.items()
        }
        self.forked_as = id_
        self.history.complete(id_, moment.states, tables, moment.read)
        self.world.comparison.sequential.go_on_from(moment.states, tables)
        self.world.comparison.committables[id_] = {name: [] for name in self.world.sinks}
        self.world.comparison.promised[id_] = {name: [] for name in self.world.sinks}


def check_record(
    world: "Forked", record: CheckpointRecord, origin: CheckpointRecord, before: "PipelineState", after: "PipelineState"
) -> None:
    id_ = record.checkpoint_id
    named = f"/{origin.name}" if origin.name else ""
    request = f"fork:{world.original.pipeline_id}/{origin.checkpoint_id}{named}"
    require(record.request_id == request, f"what is {request} says that it is {record.request_id}")
    kind = (record.status, record.kind, record.periodic, record.drain)
    require(kind == (Status.COMPLETED, CheckpointKind.CHECKPOINT, False, False), f"a fork is {kind}")
    require(id_ > origin.checkpoint_id, f"a fork from checkpoint {origin.checkpoint_id} begins with {id_}")
    mine = id_ in before.imports and before.imports[id_][1] is None
    require(mine, f"{request} is recorded as checkpoint {id_}, which nobody has begun or which was given up")
    require(after.imports[id_][1] is not None, f"checkpoint {id_} is recorded, and still being copied")
    assert after.pipeline is not None
    suspended = before.pipeline is not None and before.pipeline.status is PipelineStatus.SUSPENDED
    expected = PipelineStatus.SUSPENDED if suspended else PipelineStatus.RUNNING
    require(after.pipeline.status is expected, f"after {request} the pipeline is {after.pipeline.status}")
    require(after.region.seen_at is None, f"a region that began with nothing goes on after {request}")
    require(not after.restores, f"{request} is recorded as a restore")
    unknown = {endpoint.key for endpoint in world.graph.endpoints} - after.endpoints.keys()
    require(not unknown, f"after {request} the database does not know {unknown}")


def check_files(world: "Forked", record: CheckpointRecord, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
    """They are of its own, as they were written, and nothing is staged or on its way."""
    below, files = directory(world.pipeline_id, record.checkpoint_id), world.storage.files
    require(record.metadata_path in files, f"{record.request_id} is recorded without metadata")
    for snapshot in snapshots.values():
        for handle in snapshot.handles:
            taken = handle.kind in (HandleKind.RUN, HandleKind.POSITION)
            require(taken, f"{record.request_id} has taken along {handle.path}, which is {handle.kind}")
            require(handle.path.startswith(f"{below}/"), f"{record.request_id} refers to {handle.path}, another's file")
            whole = handle.path in files and sha256(files[handle.path]).hexdigest() == handle.checksum
            require(whole, f"{handle.path} is not there as it was written")
