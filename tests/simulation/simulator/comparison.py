"""Whether what completes holds, row by row, what a plain execution of its cut gives."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simulator.expiring import Lives, alive
from simulator.runs import values_of
from simulator.scheduler import require
from simulator.sequential import SequentialExecution
from simulator.sources import Row
from simulator.upserting import is_all
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import StepVertex
from tidegate.ports import SinkInput
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.schema.expiry import microseconds

if TYPE_CHECKING:
    from simulator.world import World


class Comparison:
    """Of one simulated run with its plain execution."""

    def __init__(self, world: "World", graph: Graph) -> None:
        self.world = world
        self.graph = graph
        self.sequential = SequentialExecution(graph)
        self.committables: dict[int, dict[str, list[str]]] = {}  # by checkpoint and sink, paths
        self.promised: dict[int, dict[str, list[Row]]] = {}  # and rows

    def completes(self, id_: int, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
        """The checkpoint's state and staged rows are those of the sequential execution of its cut."""
        cut, read = self._cut(id_, snapshots)
        triggered_at = microseconds(self.world.store.state.checkpoints[id_].triggered_at)
        given = self.sequential.step(cut, self._drawn(snapshots), triggered_at, self._ended(snapshots))
        self.world.observer.history.complete(id_, *self.sequential.came_to(), read)
        self._compare_states(id_, snapshots)
        self._compare_staged(id_, snapshots, given)

    def returns(self, id_: int, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
        """The checkpoint, recorded with a restore, is where the pipeline has gone, and adds no rows."""
        cut, _ = self._cut(id_, snapshots)
        require(not any(cut.values()), f"checkpoint {id_} has read {cut}, and was to add nothing")
        self._compare_states(id_, snapshots)
        tables = {
            v.name: self.sequential.outputs[v.name] for v in self.graph.sinks if v.sink.input is SinkInput.CURRENT
        }
        self._compare_staged(id_, snapshots, {vertex.name: tables.get(vertex.name, []) for vertex in self.graph.sinks})

    def _compare_states(self, id_: int, snapshots: Mapping[SubtaskId, Snapshot]) -> None:
        for vertex in self.graph.keyed:
            expected = self.sequential.states[vertex.name]
            state = self.state_of(vertex.operator_id, snapshots, self.sequential.states)
            require(
                state == expected,
                f"the state of {vertex.name} in checkpoint {id_} is {sorted(state.items())}, but a plain execution "
                f"gives {sorted(expected.items())}",
            )

    def _compare_staged(
        self, id_: int, snapshots: Mapping[SubtaskId, Snapshot], given: Mapping[str, Sequence[Row]]
    ) -> None:
        self.committables[id_], self.promised[id_] = {}, {}
        for vertex in self.graph.sinks:
            sink = self.world.sinks[vertex.name]
            handles = self._handles(vertex.operator_id, snapshots, HandleKind.STAGED)
            staged = sorted(row for handle in handles for row in sink.staged.get(handle.path, ()))
            expected, found = list(given[vertex.name]), staged
            if vertex.sink.input is SinkInput.UPSERTS and is_all(handles):
                expected, found = self.sequential.outputs[vertex.name], [row for row in staged if row[1] != 0]
            require(
                found == expected,
                f"checkpoint {id_} staged {found} in {vertex.name}, but a plain execution gives {expected}",
            )
            require(all(map(sink.is_whole, handles)), f"checkpoint {id_} completed without all of {vertex.name}")
            self.committables[id_][vertex.name] = [handle.path for handle in handles]
            self.promised[id_][vertex.name] = staged

    def _cut(
        self, id_: int, snapshots: Mapping[SubtaskId, Snapshot]
    ) -> tuple[dict[str, list[Row]], dict[SubtaskId, dict[int, int]]]:
        """What the checkpoint has read: its rows by source, and by split all pieces up to and including it."""
        cut: dict[str, list[Row]] = {name: [] for name in self.world.sources}
        read: dict[SubtaskId, dict[int, int]] = {}
        for name, source in self.world.sources.items():
            for subtask, now in source.pieces_in(snapshots, self.world.storage.files).items():
                before, split = self.world.observer.history.now.read.get(subtask, {}), subtask.subtask_index
                forgotten = sorted(before.items() - now.items())
                require(not forgotten, f"checkpoint {id_} forgot what {subtask} had read: {forgotten}")
                fresh = sorted(now.items() - before.items())
                cut[name] += [row for piece, version in fresh for row in source.rows_of(split, piece, version)]
                read[subtask] = now
        return cut, read

    def _ended(self, snapshots: Mapping[SubtaskId, Snapshot]) -> set[str]:
        """The sources from which nothing will follow."""
        return {
            name
            for name in self.world.sources
            if all(snapshot.finished for subtask, snapshot in snapshots.items() if subtask.operator_id == name)
        }

    def _drawn(self, snapshots: Mapping[SubtaskId, Snapshot]) -> dict[str, list[Row]]:
        """By step, the rows on record; their files go with the completion."""
        return {
            vertex.name: [
                (key, value)
                for handle in self._handles(vertex.operator_id, snapshots, HandleKind.EXCHANGE)
                for key, value in json.loads(self.world.storage.files[handle.path])
            ]
            for vertex in self.graph.producers
            if isinstance(vertex, StepVertex)
        }

    def state_of(
        self, operator_id: str, snapshots: Mapping[SubtaskId, Snapshot], states: Mapping[str, Mapping[int, int]]
    ) -> dict[int, int]:
        """Without what had expired, which may still be there. When that was, a plain execution's `states` know."""
        state: dict[int, int] = {}
        for handle in self._handles(operator_id, snapshots, HandleKind.RUN):
            require(handle.path in self.world.storage.files, f"state is gone from storage: {handle.path}")
            state |= values_of(handle, self.world.storage.files[handle.path], self.graph.pipeline.max_parallelism)
        vertex = next((vertex for vertex in self.graph.keyed if vertex.operator_id == operator_id), None)
        if vertex is None:
            return state
        return alive(vertex.ttl, state, Lives(vertex.name, vertex.ttl, {**states}).horizon)

    def _handles(
        self, operator_id: str, snapshots: Mapping[SubtaskId, Snapshot], kind: HandleKind
    ) -> list[StateHandle]:
        mine = [snapshots[subtask] for subtask in sorted(snapshots) if subtask.operator_id == operator_id]
        return [handle for snapshot in mine for handle in snapshot.handles if handle.kind is kind]
