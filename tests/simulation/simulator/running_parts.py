"""What a simulated continuous run is made of besides the code under test: its storage, and operators in plain Python
over files in a dictionary. Any of its effects may fail or be the last one of its process.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from simulator.directories import ObjectStore
from simulator.lasting import stage_lasting
from simulator.running_ages import Attempt
from simulator.running_emitting import Numbers, counted_again, key_of
from simulator.running_expiring import merge, run_ageing
from simulator.running_hours import time_of
from simulator.running_log import rows_of
from simulator.running_sessions import LogSessions
from tidegate.dataflow.elements import Data, Exchange
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import ROWS_LATE, Report, joined
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.streams import LATE_ROWS
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.ports import CheckpointStorage, Segment
from tidegate.protocol.facts.keygroups import KeyGroupRange, key_groups_of, subtask_of
from tidegate.protocol.facts.records import CompactedRun, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.schema.expiry import HORIZON
from tidegate.protocol.steps.watermarks import EventTimes

Trouble = Callable[[str], None]  # called at every effect with its name; may raise
Rows = dict[int, int]  # by key


class Disk(ObjectStore):
    """Checkpoint storage that fails, and that asks before it deletes."""

    def __init__(self, trouble: Trouble, deletes: Callable[[str], None], removes: Callable[[str], None]) -> None:
        super().__init__()
        self._trouble = trouble
        self._deletes = deletes
        self._removes = removes

    def write(self, path: str, content: bytes) -> None:
        self._trouble(f"writes {path}")
        assert path not in self.files or path.endswith(("_metadata", "_committed")), f"{path} is written twice"
        super().write(path, content)
        self._trouble(f"has written {path}")

    def delete(self, paths: Sequence[str], closed: Collection[str] = ()) -> None:
        for path in paths:
            self._deletes(path)
            super().delete([path])
        self.remove_empty(closed, self._removes)


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows a key: of an operator that reads sources."""

    def merge(self, before: int | None, value: int) -> int:
        return (before or 0) + value


@dataclass(frozen=True, slots=True)
class Peaks:
    """The largest value a key: of an operator that reads operators,
    to which it does not matter how often they report."""

    def merge(self, before: int | None, value: int) -> int:
        return max(before or 0, value)


#: Sinks that must show the same tickets, one for each row of the first log.
TICKETS = ("ticket_a", "ticket_b")


def redrawn(rows: Any) -> Any:
    raise AssertionError("the plain jobs draw by themselves")


class PlainJobs:
    """`dataflow.jobs.Jobs` without `at_once`, with runs and exchanges as JSON."""

    def __init__(
        self,
        graph: Graph,
        storage: CheckpointStorage,
        trouble: Trouble,
        unique: Callable[[], int],
        random: Any,
        said: Attempt | None = None,
    ) -> None:
        self._graph = graph
        self._storage = storage
        self._trouble = trouble
        self._unique = unique
        self._random = random
        self._said = said
        self._parallelism = graph.pipeline.parallelism
        self._max_parallelism = graph.pipeline.max_parallelism

    def run(self, execution: Execution, plan: ExecutionPlan) -> list[Report]:
        self._trouble(f"runs {execution.chain.vertex.name}")
        if isinstance(execution.chain.vertex, SinkVertex):
            return self._sink(execution, execution.chain.vertex, plan)
        if isinstance(execution.chain.vertex, StepVertex):
            return self._step(execution, execution.chain.vertex, plan)
        if execution.chain.vertex.window is not None:
            return self._windowed(execution, execution.chain.vertex, plan)
        if execution.chain.vertex.ttl is not None:
            assert self._said is not None
            return run_ageing(self, self._said, execution, execution.chain.vertex, plan)
        run = self._emitter if execution.chain.vertex.emits else self._operator
        reports = run(execution, execution.chain.vertex, plan) if execution.has_input else []
        for sink in execution.chain.sinks:
            for index in plan.to_restage(execution, sink):
                state = self.state(plan.runs(execution.chain.vertex, index), index)
                reports.append(stage_lasting(self, sink, execution.chain.vertex, plan, index, state, None))
        return reports

    def _step(self, execution: Execution, vertex: StepVertex, plan: ExecutionPlan) -> list[Report]:
        """Draw a ticket for each row."""
        rows = [[*row, self._random.random()] for data in execution.arrived.values() for row in self._rows(data)]
        reports = []
        for index, prefix in plan.prefixes(vertex).items():
            if share := rows[index :: self._parallelism]:
                sent = self._write(f"{prefix}-{self._unique()}.rows", HandleKind.EXCHANGE, share)
                reports.append(Report(vertex.operator_id, index, (sent,), {}))
        return reports

    def _operator(self, execution: Execution, vertex: KeyedVertex, plan: ExecutionPlan) -> list[Report]:
        prefixes = plan.prefixes(vertex)
        reports = []
        for index in range(self._parallelism):
            changed: Rows = {}
            state = self.state(plan.runs(vertex, index), index)
            for key, value in self._values(execution.arrived.values(), execution.chain.vertex):
                if self._owner(key) == index:
                    state[key] = changed[key] = vertex.update.merge(state.get(key), value)
            if changed:
                prefix = f"{prefixes[index]}-{self._unique()}"
                run = replace(self._write(f"{prefix}.run", HandleKind.RUN, changed), key_groups=self._groups(index))
                sent = (
                    [self._write(f"{prefix}.rows", HandleKind.EXCHANGE, changed)] if execution.chain.exchanges else []
                )
                reports.append(Report(vertex.operator_id, index, (run, *sent), {}))
        return reports

    def _emitter(self, execution: Execution, vertex: KeyedVertex, plan: ExecutionPlan) -> list[Report]:
        """State where it belongs; which emitted row falls to which subtask is another matter each time."""
        rows = [row for data in execution.arrived.values() for row in self._rows(data)]
        keys, known, reports = vertex.update.counted(rows), dict[int, int](), []
        for index in range(self._parallelism):
            state = self.state(plan.runs(vertex, index), index)
            known |= state
            own = Counter(key for key in keys if self._owner(key) == index)
            if changed := {key: vertex.update.merge(state.get(key), n) for key, n in own.items()}:
                groups = self._groups(index)
                run = self._write(f"{plan.prefixes(vertex)[index]}-{self._unique()}.run", HandleKind.RUN, changed)
                reports.append(Report(vertex.operator_id, index, (replace(run, key_groups=groups),), {}))
        emitted = vertex.update.emit(known, rows)
        self._random.shuffle(emitted)
        for index, prefix in plan.prefixes(vertex).items():
            if share := emitted[index :: self._parallelism]:
                sent = self._write(f"{prefix}-{self._unique()}.rows", HandleKind.EXCHANGE, share)
                reports.append(Report(vertex.operator_id, index, (sent,), {}))
        return joined(reports)

    def _windowed(self, execution: Execution, vertex: KeyedVertex, plan: ExecutionPlan) -> list[Report]:
        """Rows are taken into windows, then those leave that have ended, or had and have changed; late rows fall to any
        subtask."""
        rows = [row for data in execution.arrived.values() for row in self._rows(data)]
        function: Any = vertex.update
        has_sessions = isinstance(function, LogSessions)
        taken, late = ({}, []) if has_sessions else function.take_in(rows, execution.gone)
        reports = []
        for index, prefix in plan.prefixes(vertex).items():
            state, name = self.state(plan.runs(vertex, index), index), f"{prefix}-{self._unique()}"
            if has_sessions:
                own = [row for row in rows if self._owner(function.own(row).place) == index]
                changed, share = function.change(state, own, execution.gone)
            else:
                changed = {place: state.get(place, 0) + n for place, n in taken.items() if self._owner(place) == index}
                share = late[index :: self._parallelism]
            now = state | changed
            ended = [place for place in sorted(now) if now[place] and _has_passed(execution.watermark, function, place)]
            ended = ended if execution.has_windows_due else []
            left = [place for place in ended if _has_passed(execution.closed, function, place)]
            emitted = [(place, now[place]) for place in ended if place not in left or place in changed]
            changed |= {place: 0 for place in ended if _has_passed(execution.goes, function, place)}
            written = []
            if changed:
                groups = self._groups(index)
                written.append(replace(self._write(f"{name}.run", HandleKind.RUN, changed), key_groups=groups))
            if emitted:
                written.append(self._write(f"{name}.rows", HandleKind.EXCHANGE, emitted))
            if share:
                sent = self._write(f"{name}-late.rows", HandleKind.EXCHANGE, share)
                written.append(replace(sent, details={LATE_ROWS: True}))
            if written:
                reports.append(Report(vertex.operator_id, index, tuple(written), {ROWS_LATE: len(share)}))
        return reports

    def event_times(self, segments: Mapping[SubtaskId, Segment], limits: object) -> Mapping[SubtaskId, EventTimes]:
        read = {subtask: rows_of(segment) for subtask, segment in segments.items()}
        return {subtask: EventTimes(max(map(time_of, rows))) for subtask, rows in read.items() if rows}

    def _sink(self, execution: Execution, vertex: SinkVertex, plan: ExecutionPlan) -> list[Report]:
        rows: list[Any] = []
        for data in execution.arrived.values():
            if vertex.name in TICKETS:
                rows += self.drawn(data)
            elif self._emits(vertex.input.origin):
                rows += self._emitted(data, vertex.input.output == LATE_ROWS)
            elif any(isinstance(item, Exchange) for item in data):
                rows += sorted(dict(self._values([data], vertex)).items())  # the last of each key
            else:
                rows += [list(row) for row in self._rows(data)]
        if not rows:
            return []
        shares = [rows[number :: self._parallelism] for number in range(self._parallelism)]
        return [self.stage_rows(vertex, plan, index, share) for index, share in enumerate(shares) if share]

    def stage_rows(
        self, sink: SinkVertex, plan: ExecutionPlan, index: int, rows: list[Any], horizon: int | None = None
    ) -> Report:
        staging, table = plan.staging(sink), sink.sink
        handle = table.stage(plan.checkpoint_id, f"{index}-{staging.attempts[index]}-{self._unique()}", rows)
        details = {"sink": staging.identity} | ({} if horizon is None else {HORIZON: horizon})
        return Report(sink.operator_id, index, (replace(handle, details=details),), {})

    def fitting(self, restored: Mapping[SubtaskId, Snapshot]) -> Mapping[SubtaskId, Snapshot]:
        return restored

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot], below: str) -> list[CompactedRun]:
        compacted = []
        for vertex in self._graph.keyed:
            for index in range(self._parallelism):
                subtask = SubtaskId(vertex.operator_id, index)
                handles = snapshots.get(subtask, Snapshot()).handles
                runs = [handle for handle in handles if handle.kind is HandleKind.RUN]
                if len(runs) > 2 and self._random.random() < 0.6:
                    first = self._random.randrange(len(runs) - 1)
                    chosen = runs[first : first + 3]
                    path = f"{below}/{vertex.operator_id}/{index}-compacted-{self._unique()}.run"
                    rows, details = merge(self, vertex, checkpoint_id, chosen, index, first == 0)
                    run = self._write(path, HandleKind.RUN, rows)
                    at, groups = max(checkpoint_id, 1), self._groups(index)
                    run = replace(run, created_by=at, key_groups=groups, details=details)
                    compacted.append(CompactedRun(subtask, run, tuple(run.view for run in chosen)))
        return compacted

    # -- rows

    def _values(self, arrived: Iterable[Sequence[Data]], vertex: Any) -> list[tuple[int, int]]:
        """Key and value of everything that arrived, in order."""
        result: list[tuple[int, int]] = []
        for data in arrived:
            for item in data:
                if drawn := self.drawn([item]):
                    result += [(key_of((split, at)), 1) for split, at, _ in drawn]
                elif emitted := self._emitted([item]):
                    result += counted_again(emitted)
                elif isinstance(item, Exchange):
                    result += [(key, value) for handle in item.handles for key, value in self._load(handle).items()]
                elif isinstance(vertex.update, Numbers):
                    result += [(key, 1) for key in vertex.update.counted(self._rows([item]))]
                else:
                    result += [(key_of(row), 1) for row in self._rows([item])]
        return result

    def _emits(self, origin: str) -> bool:
        return any(vertex.name == origin and vertex.emits for vertex in self._graph.keyed)

    def _emitted(self, data: Sequence[Data], late: bool = False) -> list[Any]:
        """The rows of files that an operator has emitted, all of them; those of changed state are by key."""
        handles = [handle for item in data if isinstance(item, Exchange) for handle in item.handles]
        handles = [handle for handle in handles if bool(handle.details.get(LATE_ROWS)) is late]
        files = [json.loads(self._storage.read(handle.path)) for handle in handles]
        return [row for rows in files if isinstance(rows, list) for row in rows]

    def drawn(self, data: Sequence[Data]) -> list[Any]:
        """What a step made of rows."""
        handles = [handle for item in data if isinstance(item, Exchange) for handle in item.handles]
        drawn = [handle for handle in handles if "/drawn/" in handle.path]
        return [row for handle in drawn for row in json.loads(self._storage.read(handle.path))]

    def _rows(self, data: Sequence[Data]) -> list[tuple[int, int]]:
        return [row for item in data if isinstance(item, Segment) for row in rows_of(item)]

    def state(self, runs: Iterable[StateHandle], index: int) -> Rows:
        """The newest value of every key that is the subtask's, oldest run first; each run only in its key groups."""
        state: Rows = {}
        for run in runs:
            for key, value in self._load(run).items():
                group = self._group(key)
                assert run.key_groups is not None
                if run.key_groups.first <= group <= run.key_groups.last and self._owner(key) == index:
                    state[key] = value
        return state

    def _group(self, key: int) -> int:
        return key % self._max_parallelism

    def _groups(self, index: int) -> KeyGroupRange:
        return key_groups_of(index, self._parallelism, self._max_parallelism)

    def _owner(self, key: int) -> int:
        return subtask_of(self._group(key), self._parallelism, self._max_parallelism)

    def _load(self, handle: StateHandle) -> Rows:
        return {int(key): value for key, value in json.loads(self._storage.read(handle.path)).items()}

    def _write(self, path: str, kind: HandleKind, rows: Any) -> StateHandle:
        content = json.dumps(rows).encode()
        self._storage.write(path, content)
        return StateHandle(path, kind, len(rows), len(content), sha256(content).hexdigest(), 1)


def _has_passed(time: int | None, function: Any, place: int) -> bool:
    """Whether event time has come to the end of a window."""
    return time is not None and bool(function.end_of(place) <= time)
