"""What sinks that show an operator's state have with each checkpoint of a simulated continuous run: all of it, however
rows fell into micro-batches, and whatever became of the checkpoints between."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulator.running_parts import PlainJobs
from simulator.scheduler import require
from simulator.upserting import is_all, shown, take_in
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import SinkInput
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId

if TYPE_CHECKING:
    from simulator.running import Running

Snapshots = Mapping[SubtaskId, Snapshot]


class Lasting:
    """Of one run. `tables`: by checkpoint and sink of upserts, what it has come to. Rows that expire are compared
    elsewhere."""

    def __init__(self, world: "Running") -> None:
        self.world = world
        self.tables: dict[int, dict[str, dict[int, int]]] = {0: {}}

    def completes(self, id_: int, follows: int, snapshots: Snapshots) -> None:
        self.tables[id_] = {}
        operators = {vertex.name: vertex for vertex in self.world.graph.keyed if vertex.ttl is None}
        for sink in self.world.graph.sinks:
            vertex = operators.get(sink.input.origin)
            if vertex is None or sink.sink.input is SinkInput.CHANGES:
                continue
            handles = _handles(sink.operator_id, snapshots, HandleKind.STAGED)
            table, state = self._come_to(id_, follows, sink, handles), self._state(vertex, snapshots)
            require(table == state, f"{sink.name} has {table} with checkpoint {id_}, and should have {state}")

    def _come_to(self, id_: int, follows: int, sink: SinkVertex, handles: list[StateHandle]) -> dict[int, int]:
        table: Any = sink.sink
        rows = (row for handle in handles for row in table.staged[handle.path])
        if table.input is SinkInput.CURRENT:
            return dict(rows)
        had = self.tables[follows].get(sink.name, {})
        if is_all(handles):
            had, rows = {}, (row for row in rows if row[1] != 0)
        come_to = self.tables[id_][sink.name] = dict(had)
        take_in(come_to, rows, f"{sink.name} in checkpoint {id_}")
        return come_to

    def _state(self, vertex: KeyedVertex, snapshots: Snapshots) -> dict[int, int]:
        world, state = self.world, dict[int, int]()
        jobs = PlainJobs(world.graph, world.disk, lambda what: None, world.unique, world.random)
        for subtask in sorted(snapshots):
            if subtask.operator_id == vertex.operator_id:
                runs = [h for h in snapshots[subtask].handles if h.kind is HandleKind.RUN]
                state |= jobs.state(runs, subtask.subtask_index)
        return shown(state)


def _handles(operator_id: str, snapshots: Snapshots, kind: HandleKind) -> list[StateHandle]:
    mine = [snapshots[subtask] for subtask in sorted(snapshots) if subtask.operator_id == operator_id]
    return [handle for snapshot in mine for handle in snapshot.handles if handle.kind is kind]
