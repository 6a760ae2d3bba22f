"""An attempt at a snapshot without Spark: the real sources, gates and barriers, around operators that are plain Python.

It proceeds in small steps whose order the seed decides: which channel gets its next element, which operator and subtask
runs, what is acknowledged together. Readers do not stop at the barrier: what they emit behind it must be held back.
"""

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from simulator.graphs import KEYS
from simulator.runs import group_of, values_of
from simulator.scheduler import Violation
from simulator.sources import Row
from tidegate.dataflow import source_snapshots
from tidegate.dataflow.elements import Aborted, Aligned, Data, Exchange, Output, Released, SnapshotDue
from tidegate.dataflow.input_gate import InputGate
from tidegate.dataflow.jobs import Parts
from tidegate.pipeline.definition import KeyedVertex, SinkVertex, StepVertex
from tidegate.pipeline.graph import Graph, inputs_of
from tidegate.ports import Acknowledge, Segment, SinkInput
from tidegate.protocol.barrier_options import GateOptions, make_handler
from tidegate.protocol.barriers import Barrier, Cancel, EndOfData, EndOfPartition, Marker, StopMode
from tidegate.protocol.errors import CheckpointDeclinedError, StateIntegrityError, StoreUnavailableError
from tidegate.protocol.finished import choose_triggered, finished_operators
from tidegate.protocol.keygroups import key_groups_of, subtask_of
from tidegate.protocol.records import (
    Acknowledgement,
    AcknowledgeResult,
    CompactedRun,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
)
from tidegate.protocol.snapshot import SnapshotTask

if TYPE_CHECKING:
    from simulator.world import World


@dataclass(eq=False)
class Chain:
    """A vertex, the sinks that take its rows as they are, its gate, and what is on its way to it in each channel."""

    vertex: StepVertex | KeyedVertex | SinkVertex
    fused: tuple[SinkVertex, ...]
    gate: InputGate
    coming: list[deque[Data | Marker]]
    arrived: list[Data] = field(default_factory=list)
    aligned: bool = False
    end: StopMode | None = None


class SimulatedRegion:
    """`ports.Region`. Made for one call, as a process of its own."""

    def __init__(self, world: "World", graph: Graph) -> None:
        self.world = world
        self.graph = graph
        self.random = world.random
        self.parallelism = graph.pipeline.parallelism
        self.max_parallelism = graph.pipeline.max_parallelism
        no_jobs: Any = None  # operators are run below, in the order that the seed decides
        self._parts = Parts(graph, world.storage, no_jobs, world.clock, world.name)

    def snapshot(self, task: SnapshotTask, acknowledge: Acknowledge) -> None:
        self.world.observer.asks(task)
        self._task = task
        self._acknowledge = acknowledge
        try:
            sources = source_snapshots.snapshot_sources(self._parts, task, self._report, self.world.clock.now())
            if self.world.strikes("decline"):
                raise CheckpointDeclinedError("a subtask was not ready")
            self._finished = finished_operators(self.graph.plan, task.restored)
            self._chains = [self._chain(vertex, sources) for vertex in self._vertices()]
            while any(not chain.aligned for chain in self._chains):
                self._step()
        except StateIntegrityError as error:
            self.world.observer.misses_a_file(task, error)
            raise

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot]) -> list[CompactedRun]:
        """Merge some neighbouring runs of subtasks that have several."""
        compacted = []
        for vertex in self.graph.keyed:
            for index in range(self.parallelism):
                subtask = SubtaskId(vertex.operator_id, index)
                runs = _of_kind(snapshots.get(subtask, Snapshot()), HandleKind.RUN)
                if len(runs) > 1 and self.random.random() < 0.7:
                    first = self.random.randrange(len(runs) - 1)
                    chosen = runs[first : first + self.random.choice([2, 2, 3])]
                    name = f"{index}-compacted-{self.world.unique()}"
                    self.world.point(f"merges {len(chosen)} runs of {subtask}")
                    run = self._write_run(vertex, index, checkpoint_id, name, self._state(chosen))
                    compacted.append(CompactedRun(subtask, run, tuple(handle.view for handle in chosen)))
        return compacted

    # -- channels and gates

    def _vertices(self) -> list[StepVertex | KeyedVertex | SinkVertex]:
        return [*self.graph.producers, *(sink for sink in self.graph.sinks if not self._is_fused(sink))]

    def _is_fused(self, sink: SinkVertex) -> bool:
        return any(vertex.name == sink.input.origin for vertex in self.graph.keyed)

    def _chain(self, vertex: StepVertex | KeyedVertex | SinkVertex, sources: source_snapshots.SourceSnapshots) -> Chain:
        fused = tuple(sink for sink in self.graph.sinks if sink.input.origin == vertex.name and self._is_fused(sink))
        fused = fused if isinstance(vertex, KeyedVertex) else ()
        channels: list[str] = []
        coming: list[deque[Data | Marker]] = []
        for origin in dict.fromkeys(stream.origin for stream in inputs_of(vertex)):
            splits = self.world.sources[origin].num_splits() if origin in self.world.sources else 0
            for split in range(splits):
                channels.append(f"{origin}/{split}")
                others = any(isinstance(marker, Barrier) for queue in coming for marker in queue)
                coming.append(self._emitted(SubtaskId(origin, split), sources, len(channels) - 1, others))
            if not splits:
                channels.append(origin)
                coming.append(deque([EndOfPartition(len(channels) - 1)] if origin in self._finished else []))
        gate = InputGate(channels, make_handler(GateOptions(), len(channels)), self.world.clock)
        ids = [vertex.operator_id, *(sink.operator_id for sink in fused)]
        waited_for = [id_ for id_ in ids if id_ not in self._finished or id_ in self.graph.restaged]
        if choose_triggered(waited_for, self._finished, self.graph.upstreams):  # behind the ends of all channels
            for queue in coming:
                gate.signal(queue.popleft())
            gate.drain()
            coming[0].append(Barrier(self._task.checkpoint_id, 0))
        return Chain(vertex, fused, gate, coming, aligned=not waited_for)

    def _emitted(
        self, split_id: SubtaskId, sources: source_snapshots.SourceSnapshots, channel: int, others: bool
    ) -> deque[Data | Marker]:
        """What a source split puts into a channel: perhaps remains of an older checkpoint, its part of the snapshot in one or
        two pieces, the barrier, and what comes after. `others`: some other channel has a barrier."""
        source, split, checkpoint_id = (
            self.world.sources[split_id.operator_id],
            split_id.subtask_index,
            self._task.checkpoint_id,
        )
        elements: deque[Data | Marker] = deque()
        if split_id not in sources.segments:  # it had finished before
            elements.append(EndOfPartition(channel))
            return elements
        segment, end = sources.segments[split_id], sources.ends.get(split_id)
        noise = self.random.random()
        if checkpoint_id > 1 and noise < 0.1:
            elements.append((Cancel if noise < 0.03 else Barrier)(checkpoint_id - 1, channel))
        pieces = [] if segment is None else list(segment.reference["pieces"])
        middle = self.random.randint(0, len(pieces))
        for part in (source.segment(split, pieces[:middle]), source.segment(split, pieces[middle:])):
            if part is not None:
                elements.append(part)
        if end is not None:
            elements.append(EndOfData(channel, end))
        if end is StopMode.DRAIN and others and self.random.random() < 0.3:  # but somebody has to send the barrier
            elements.append(EndOfPartition(channel))
            return elements
        elements.append(Barrier(checkpoint_id, channel))
        behind = source.behind(segment, split)
        if behind is not None and end is None and self.random.random() < 0.5:
            elements.append(behind)
        return elements

    def _step(self) -> None:
        """One channel of one gate gets its next element; what follows from it is carried out."""
        ready = [s for s in self._chains if not s.aligned and any(s.coming)]
        if not ready:
            raise Violation("a gate waits for a barrier that nobody sends")
        chain = self.random.choice(ready)
        channel = self.random.choice([c for c, queue in enumerate(chain.coming) if queue])
        match element := chain.coming[channel].popleft():
            case Barrier() | Cancel() | EndOfData() | EndOfPartition():
                chain.gate.signal(element)
            case _:
                chain.gate.offer(channel, element)
        if self.random.random() < 0.7 or not any(chain.coming):
            for output in chain.gate.drain():
                self._follow(chain, output)

    def _follow(self, chain: Chain, output: Output) -> None:
        match output:
            case Released() if not chain.aligned:  # later ones belong to the next checkpoint
                chain.arrived.append(output.data)
            case Aligned() if output.checkpoint_id == self._task.checkpoint_id:
                chain.end = output.ended
            case SnapshotDue() if output.checkpoint_id == self._task.checkpoint_id:
                chain.aligned = True
                self._run(chain)
            case Aborted() if output.abort.checkpoint_id == self._task.checkpoint_id:
                raise CheckpointDeclinedError(f"{chain.vertex.name}: {output.abort.reason.sentence}")

    # -- operators

    def _run(self, chain: Chain) -> None:
        """Every subtask that has not acknowledged, in any order; then downstream gets the rows and the barrier. Which rows of
        a step fall to which of its subtasks is another matter each time, so they acknowledge together."""
        ids = [chain.vertex.operator_id, *(sink.operator_id for sink in chain.fused)]
        pending = [i for i in range(self.parallelism) if any(SubtaskId(id_, i) in self._task.attempts for id_ in ids)]
        self.random.shuffle(pending)
        rows = [row for data in chain.arrived for row in self._rows(data)]
        if isinstance(chain.vertex, StepVertex):
            self.random.shuffle(rows)
        sent: dict[int, tuple[StateHandle, ...]] = {}
        unsent: list[Acknowledgement] = []
        for index in pending:
            acks = self._subtask(chain, index, rows)
            sent[index] = _of_kind(acks[0].snapshot, HandleKind.EXCHANGE)
            unsent += [self._ended(chain, ack) for ack in acks if ack.subtask in self._task.attempts]
            if self._answers_early(chain) and self.random.random() < 0.5:
                source_snapshots.confirm(self.graph, self._task, self._report, unsent)
                unsent = []
        if unsent:
            source_snapshots.confirm(self.graph, self._task, self._report, unsent)
        for index in range(self.parallelism):
            acknowledged = self._task.acknowledged.get(SubtaskId(ids[0], index))
            if acknowledged is not None:
                sent[index] = _of_kind(acknowledged, HandleKind.EXCHANGE)
        handles = tuple(handle for index in sorted(sent) for handle in sent[index])
        if chain.vertex.operator_id not in self._finished:
            self._emit(chain.vertex.name, Exchange(handles) if handles else None, chain.end)

    def _answers_early(self, chain: Chain) -> bool:
        return not isinstance(chain.vertex, StepVertex)

    def _emit(self, origin: str, exchange: Exchange | None, end: StopMode | None) -> None:
        for chain in self._chains:
            if origin in chain.gate.channels:
                channel = chain.gate.channels.index(origin)
                if exchange is not None:
                    chain.coming[channel].append(exchange)
                if end is not None:
                    chain.coming[channel].append(EndOfData(channel, end))
                chain.coming[channel].append(Barrier(self._task.checkpoint_id, channel))

    def _rows(self, data: Data) -> list[Row]:
        if isinstance(data, Segment):
            return self.world.sources[data.reference["source"]].rows(data)
        return [tuple(row) for handle in data.handles for row in json.loads(self.world.storage.read(handle.path))]

    def _subtask(self, chain: Chain, index: int, rows: Sequence[Row]) -> list[Acknowledgement]:
        """The acknowledgements of an operator and its sinks, the operator's first."""
        vertex, task = chain.vertex, self._task
        attempt = max(task.attempts.values())
        name = f"{index}-{attempt}-{self.world.unique()}"
        if isinstance(vertex, SinkVertex):  # of source rows, which it takes by their place
            mine = [row for number, row in enumerate(sorted(rows)) if number % self.parallelism == index]
            return [self._ack(vertex.operator_id, index, self._staged(vertex, name, mine))]
        if isinstance(vertex, StepVertex):
            drawn = [(self.random.randrange(KEYS), value) for _, value in rows[index :: self.parallelism]]
            return [self._ack(vertex.operator_id, index, self._write_step(vertex, name, drawn))]
        by_key: dict[int, list[Row]] = {}
        for row in rows:
            key = vertex.update.key_of(row)
            if subtask_of(group_of(key, self.max_parallelism), self.parallelism, self.max_parallelism) == index:
                by_key.setdefault(key, []).append(row)
        runs = _of_kind(self._restored(vertex.operator_id, index), HandleKind.RUN)
        if not by_key:
            carried = [self._ack(s.operator_id, index, self._unchanged(s, index, name, runs)) for s in chain.fused]
            return [self._ack(vertex.operator_id, index, runs), *carried]
        state = self._state(runs)
        changed = {key: vertex.update.update(state.get(key), group) for key, group in by_key.items()}
        run = self._write_run(vertex, index, task.checkpoint_id, name, changed)
        exchange = self._write_exchange(vertex, name, changed)
        acks = [self._ack(vertex.operator_id, index, (*runs, run, *exchange))]
        for sink in chain.fused:
            current = sink.sink.input is SinkInput.CURRENT
            given = sorted((state | changed if current else changed).items())
            acks.append(self._ack(sink.operator_id, index, self._staged(sink, name, given)))
        return acks

    def _ack(self, operator_id: str, index: int, handles: Sequence[StateHandle]) -> Acknowledgement:
        subtask = SubtaskId(operator_id, index)
        return Acknowledgement(subtask, self._task.attempts.get(subtask, 0), Snapshot(tuple(handles)))

    def _ended(self, chain: Chain, ack: Acknowledgement) -> Acknowledgement:
        return replace(ack, snapshot=replace(ack.snapshot, finished=chain.end is StopMode.DRAIN))

    def _restored(self, operator_id: str, index: int) -> Snapshot:
        return self._task.restored.get(SubtaskId(operator_id, index), Snapshot())

    def _staged(self, sink: SinkVertex, name: str, rows: Sequence[Row]) -> tuple[StateHandle, ...]:
        if not rows and sink.sink.input is SinkInput.CHANGES:
            return ()
        return (sink.sink.stage(self._task.checkpoint_id, name, rows),)

    def _unchanged(
        self, sink: SinkVertex, index: int, name: str, runs: Sequence[StateHandle]
    ) -> tuple[StateHandle, ...]:
        """What a sink of current rows has already; after a rescale that is nothing, and it gets all of them anew."""
        if sink.sink.input is SinkInput.CHANGES:
            return ()
        before = _of_kind(self._restored(sink.operator_id, index), HandleKind.STAGED)
        return before or (self._staged(sink, name, sorted(self._state(runs).items())) if runs else ())

    # -- state

    def _state(self, runs: Sequence[StateHandle]) -> dict[int, int]:
        """The newest value of every key, oldest run first."""
        state: dict[int, int] = {}
        for run in runs:
            state |= values_of(run, self.world.storage.read(run.path), self.max_parallelism)
        return state

    def _write_run(
        self, vertex: KeyedVertex, index: int, checkpoint_id: int, name: str, values: Mapping[int, int]
    ) -> StateHandle:
        handle = self._write(vertex, checkpoint_id, f"{name}.run", HandleKind.RUN, sorted(values.items()))
        groups = key_groups_of(index, self.parallelism, self.max_parallelism)
        return StateHandle(handle.path, handle.kind, handle.rows, handle.bytes, handle.checksum, checkpoint_id, groups)

    def _write_exchange(self, vertex: KeyedVertex, name: str, changed: Mapping[int, int]) -> tuple[StateHandle, ...]:
        if not any(not isinstance(v, SinkVertex) for v in self.graph.downstream(vertex.name)):
            return ()
        rows = sorted(changed.items())
        return (self._write(vertex, self._task.checkpoint_id, f"{name}.rows", HandleKind.EXCHANGE, rows),)

    def _write_step(self, vertex: StepVertex, name: str, rows: Sequence[Row]) -> tuple[StateHandle, ...]:
        kind = HandleKind.EXCHANGE
        return (self._write(vertex, self._task.checkpoint_id, f"{name}.rows", kind, rows),) if rows else ()

    def _write(
        self, vertex: StepVertex | KeyedVertex, checkpoint_id: int, name: str, kind: HandleKind, rows: Sequence[Row]
    ) -> StateHandle:
        content = json.dumps(rows).encode()
        path = f"{self.graph.pipeline.name}/chk-{checkpoint_id}/{vertex.operator_id}/{name}"
        self.world.storage.write(path, content)
        return StateHandle(path, kind, len(rows), len(content), sha256(content).hexdigest(), checkpoint_id)

    # -- back to the coordinator

    def _report(self, acks: Sequence[Acknowledgement]) -> Mapping[SubtaskId, AcknowledgeResult]:
        """Acknowledge over a network that loses calls, repeats them, and delivers some long after."""
        if self.world.strikes("lost_report"):
            self.world.note("loses a report")
            raise StoreUnavailableError("the report was lost")
        if self.world.strikes("late_report"):
            self.world.late_reports.append((self._task.checkpoint_id, list(acks)))
        results = self._acknowledge(acks)
        self.world.observer.answers(self._task.checkpoint_id, acks, results)
        if self.world.strikes("repeated_report"):
            results = self._acknowledge(acks)
            self.world.observer.answers(self._task.checkpoint_id, acks, results)
        return results

    def frame(self, target: str, subtasks: object) -> None:
        return None


def _of_kind(snapshot: Snapshot, kind: HandleKind) -> tuple[StateHandle, ...]:
    return tuple(handle for handle in snapshot.handles if handle.kind is kind)
