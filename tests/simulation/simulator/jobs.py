"""The work of operator chains in plain Python: `dataflow.jobs.Jobs`, where the seed decides who goes on next.

Each subtask reads files, writes others under names of its own, and reports them, as a Spark task does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from simulator.expiring import SPREAD, Judged
from simulator.graphs import KEYS
from simulator.lasting import stage_lasting
from simulator.runs import group_of, values_of
from simulator.scheduler import Violation
from simulator.sources import Row
from simulator.windowed import SessionFunction, time_of
from tidegate.dataflow.elements import Data
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.jobs import JobEnded, JobReported
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import ROWS_LATE, Report, joined
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.streams import LATE_ROWS
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.ports import Segment, SinkInput
from tidegate.protocol.facts.errors import CheckpointDeclinedError, CheckpointError
from tidegate.protocol.facts.keygroups import key_groups_of, subtask_of
from tidegate.protocol.facts.paths import compaction_prefix
from tidegate.protocol.facts.records import CompactedRun, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.schema.expiry import BY_RUNS_ALONE, HORIZON, TTL, Moment, RecordedTtl
from tidegate.protocol.steps.watermarks import EventTimes

if TYPE_CHECKING:
    from simulator.world import World

Work = Iterator[JobReported | JobEnded]


class SimulatedJobs:
    """For one region. Also its own `JobsAtOnce`."""

    def __init__(self, world: "World", graph: Graph) -> None:
        self.world = world
        self.graph = graph
        self.random = world.random
        self.parallelism = graph.pipeline.parallelism
        self.max_parallelism = graph.pipeline.max_parallelism
        self._at_work: list[Work] = []

    # -- side by side

    @contextmanager
    def at_once(self, name: str, most: int) -> Iterator["SimulatedJobs"]:
        if self.world.strikes("decline"):
            raise CheckpointDeclinedError("a subtask was not ready")
        yield self

    def start(self, execution: Execution, plan: ExecutionPlan) -> None:
        arrived = [item for data in execution.arrived.values() for item in data]  # what comes later is too late
        self._at_work.append(self._work(execution, plan, arrived))

    def news(self) -> Sequence[JobReported | JobEnded]:
        """One or several of those at work go on by a subtask; a real job reports some of them early, or none."""
        news: list[JobReported | JobEnded] = []
        while not news or (self._at_work and self.random.random() < 0.3):
            work = self.random.choice(self._at_work)
            news.append(next(work))
            if isinstance(news[-1], JobEnded):
                self._at_work.remove(work)
        return news

    def _work(self, execution: Execution, plan: ExecutionPlan, arrived: Sequence[Data]) -> Work:
        unreported: list[Report] = []
        try:
            for reports in self._subtasks(execution, plan, arrived):
                unreported += reports
                if self.random.random() < 0.5:
                    yield JobReported(execution, unreported)
                    unreported = []
        except CheckpointError as error:
            yield JobEnded(execution, [], error)
        else:
            yield JobEnded(execution, unreported)

    def run(self, execution: Execution, plan: ExecutionPlan) -> list[Report]:
        raise Violation("a scheduled run has its jobs side by side")

    # -- operators

    def _subtasks(self, execution: Execution, plan: ExecutionPlan, arrived: Sequence[Data]) -> Iterator[list[Report]]:
        """Every subtask that has not acknowledged, in any order. Which rows of a step fall to which of its subtasks is
        another matter each time."""
        vertex, pending = execution.chain.vertex, plan.pending(execution.chain)
        self.random.shuffle(pending)
        rows = [row for item in arrived for row in self._rows(item, _reads_late(vertex))]
        if isinstance(vertex, KeyedVertex) and vertex.window is not None:
            yield from self._windowed(execution, vertex, plan, pending, rows)
            return
        if isinstance(vertex, StepVertex):
            self.random.shuffle(rows)
        emitted = self._emitted(vertex, plan, rows) if isinstance(vertex, KeyedVertex) and vertex.emits else []
        for place, index in enumerate(pending):
            match vertex:
                case SinkVertex():  # of source rows, which it takes by their place
                    mine = [row for number, row in enumerate(sorted(rows)) if number % self.parallelism == index]
                    yield [self.stage_rows(vertex, plan, index, mine)] if mine else []
                case StepVertex():
                    drawn = [(self.random.randrange(KEYS), value) for _, value in rows[index :: self.parallelism]]
                    yield (
                        [Report(vertex.operator_id, index, (self._send(vertex, plan, index, drawn),), {})]
                        if drawn
                        else []
                    )
                case KeyedVertex() if vertex.emits:
                    yield self._emitter(execution, vertex, plan, index, rows, emitted[place :: len(pending)])
                case KeyedVertex():
                    yield self._operator(execution, vertex, plan, index, rows)

    def _operator(
        self, execution: Execution, vertex: KeyedVertex, plan: ExecutionPlan, index: int, rows: Sequence[Row]
    ) -> list[Report]:
        """The operator's report, if anything arrived for the subtask, and those of the sinks of its rows."""
        by_key, judged = self._owned(vertex, index, rows), self._judged(vertex, plan, index)
        state = judged.seen
        if not by_key:
            lacking = [sink for sink in execution.chain.sinks if index in plan.to_restage(execution, sink)]
            return [stage_lasting(self, sink, vertex, plan, index, state, judged.horizon) for sink in lacking]
        changed = {key: vertex.update.update(state.get(key), group) for key, group in by_key.items()}
        written = [self._write_run(plan.prefixes(vertex)[index], plan.checkpoint_id, index, *judged.written(changed))]
        if execution.chain.exchanges:
            written.append(self._send(vertex, plan, index, sorted(changed.items())))
        reports = [Report(vertex.operator_id, index, tuple(written), {})]
        for sink in execution.chain.sinks:
            if sink.sink.input is SinkInput.CHANGES:
                reports.append(self.stage_rows(sink, plan, index, sorted(changed.items()), judged.horizon))
            else:
                reports.append(stage_lasting(self, sink, vertex, plan, index, judged.after(changed), judged.horizon))
        return reports

    def _emitter(
        self,
        execution: Execution,
        vertex: KeyedVertex,
        plan: ExecutionPlan,
        index: int,
        rows: Sequence[Row],
        share: Sequence[Row],
    ) -> list[Report]:
        """The subtask's part of the state, and its share of what is emitted, each reported as it is on Spark."""
        by_key, judged = self._owned(vertex, index, rows), self._judged(vertex, plan, index)
        state = judged.seen
        changed = {k: vertex.update.update(state.get(k), each) for k, each in by_key.items() if vertex.update.stores(k)}
        reports = []
        if changed:
            run = self._write_run(plan.prefixes(vertex)[index], plan.checkpoint_id, index, *judged.written(changed))
            reports.append(Report(vertex.operator_id, index, (run,), {}))
        if share:
            sent = (self._send(vertex, plan, index, share),) if execution.chain.exchanges else ()
            reports.append(Report(vertex.operator_id, index, sent, {}))
            reports += [self.stage_rows(sink, plan, index, share) for sink in execution.chain.sinks]
        return joined(reports)

    def _emitted(self, vertex: KeyedVertex, plan: ExecutionPlan, rows: Sequence[Row]) -> list[Row]:
        """What the operator emits. Which row falls to which subtask is another matter each time."""
        emitted: list[Row] = []
        for index in range(self.parallelism):
            state = self._judged(vertex, plan, index).seen
            for key, group in self._owned(vertex, index, rows).items():
                emitted += vertex.update.emit(key, state.get(key), group)
        self.random.shuffle(emitted)
        return emitted

    def _windowed(
        self, execution: Execution, vertex: KeyedVertex, plan: ExecutionPlan, pending: list[int], rows: Sequence[Row]
    ) -> Iterator[list[Report]]:
        """Each subtask takes rows into its windows and emits those that have ended; late rows fall to any of them, or
        to those that have their keys if there are sessions."""
        function: Any = vertex.update
        has_sessions = isinstance(function, SessionFunction)
        taken, late = ({}, []) if has_sessions else function.take_in(rows, execution.gone)
        self.random.shuffle(late)
        for number, index in enumerate(pending):
            state = self.state(plan.runs(vertex, index))
            if has_sessions:
                own = [row for row in rows if self._owner(function.own(row).place) == index]
                changed, share = function.change(state, own, execution.gone)
            else:
                mine = {place: group for place, group in taken.items() if self._owner(place) == index}
                changed = {place: function.digest(state.get(place), group) for place, group in mine.items()}
                share = late[number :: len(pending)]
            now = state | changed
            due, leaving = execution.has_windows_due, list[int]()
            if due:
                leaving = function.leaving(now, changed, execution.closed, execution.watermark)
            gone = [place for place in now if due and now[place] and _goes(execution, function.end_of(place))]
            emitted = [function.emitted(place, now[place]) for place in leaving]
            reports = []
            if changed or gone:
                values = changed | dict.fromkeys(gone, 0)
                run = self._write_run(plan.prefixes(vertex)[index], plan.checkpoint_id, index, values, None)
                reports.append(Report(vertex.operator_id, index, (run,), {}))
            if emitted:
                sent = (self._send(vertex, plan, index, emitted),) if execution.chain.exchanges else ()
                reports.append(Report(vertex.operator_id, index, sent, {}))
                reports += [self.stage_rows(sink, plan, index, emitted) for sink in execution.chain.sinks]
            if share and self.graph.reads_late(vertex.name):
                sent = (replace(self._send(vertex, plan, index, share), details={LATE_ROWS: True}),)
                reports.append(Report(vertex.operator_id, index, sent, {}))
            if share:
                reports.append(Report(vertex.operator_id, index, (), {ROWS_LATE: len(share)}))
            yield joined(reports)

    def _owner(self, key: int) -> int:
        return subtask_of(group_of(key, self.max_parallelism), self.parallelism, self.max_parallelism)

    def _owned(self, vertex: KeyedVertex, index: int, rows: Sequence[Row]) -> dict[int, list[Row]]:
        """By key, the rows that fall to a subtask."""
        by_key: dict[int, list[Row]] = {}
        for row in rows:
            key = vertex.update.key_of(row)
            if self._owner(key) == index:
                by_key.setdefault(key, []).append(row)
        return by_key

    def event_times(self, segments: Mapping[SubtaskId, Segment], limits: object) -> Mapping[SubtaskId, EventTimes]:
        read = {subtask: self._rows(segment) for subtask, segment in segments.items()}
        return {subtask: EventTimes(max(map(time_of, rows))) for subtask, rows in read.items() if rows}

    # -- merging

    def fitting(self, restored: Mapping[SubtaskId, Snapshot]) -> Mapping[SubtaskId, Snapshot]:
        return restored

    def compact(self, checkpoint_id: int, snapshots: Mapping[SubtaskId, Snapshot], below: str) -> list[CompactedRun]:
        """Merge some neighbouring runs of subtasks that have several."""
        compacted = []
        for vertex in self.graph.keyed:
            for index in range(self.parallelism):
                subtask = SubtaskId(vertex.operator_id, index)
                handles = snapshots.get(subtask, Snapshot()).handles
                runs = [handle for handle in handles if handle.kind is HandleKind.RUN]
                if len(runs) > 1 and self.random.random() < 0.7:
                    first = self.random.randrange(len(runs) - 1)
                    chosen = runs[first : first + self.random.choice([2, 2, 3])]
                    self.world.point(f"merges {len(chosen)} runs of {subtask}")
                    kept, recorded = self._merged(vertex, checkpoint_id, chosen, is_oldest=first == 0)
                    prefix = compaction_prefix(below, subtask)
                    run = self._write_run(prefix, checkpoint_id, index, kept, recorded)
                    compacted.append(CompactedRun(subtask, run, tuple(handle.view for handle in chosen)))
        return compacted

    # -- files

    def _rows(self, data: Data, late: bool = False) -> list[Row]:
        if isinstance(data, Segment):
            return self.world.sources[data.reference["source"]].rows(data)
        handles = [handle for handle in data.handles if bool(handle.details.get(LATE_ROWS)) is late]
        return [tuple(row) for handle in handles for row in json.loads(self.world.storage.read(handle.path))]

    def state(self, runs: Sequence[StateHandle], index: int | None = None) -> dict[int, int]:
        """The newest value of every key, oldest run first, whatever subtask has it."""
        state: dict[int, int] = {}
        for run in runs:
            state |= values_of(run, self.world.storage.read(run.path), self.max_parallelism)
        return state

    def _judged(self, vertex: KeyedVertex, plan: ExecutionPlan, index: int) -> Judged:
        return Judged(vertex.ttl, self.state(plan.runs(vertex, index)), plan.all_runs(vertex), plan.moment)

    def _merged(
        self,
        vertex: KeyedVertex,
        checkpoint_id: int,
        chosen: Sequence[StateHandle],
        is_oldest: bool,
    ) -> tuple[dict[int, int], RecordedTtl | None]:
        judged = Judged(vertex.ttl, self.state(chosen), chosen, Moment(checkpoint_id, BY_RUNS_ALONE))
        return judged.merged(chosen, checkpoint_id, is_oldest)

    def stage_rows(
        self, sink: SinkVertex, plan: ExecutionPlan, index: int, rows: Sequence[Row], horizon: int | None = None
    ) -> Report:
        staging = plan.staging(sink)
        name = f"{index}-{staging.attempts[index]}-{self.world.unique()}"
        handle = sink.sink.stage(plan.checkpoint_id, name, rows)
        details = {"sink": staging.identity} | ({} if horizon is None else {HORIZON: horizon})
        return Report(sink.operator_id, index, (replace(handle, details=details),), {})

    def _send(
        self, vertex: StepVertex | KeyedVertex, plan: ExecutionPlan, index: int, rows: Sequence[Row]
    ) -> StateHandle:
        return self._write(plan.prefixes(vertex)[index], plan.checkpoint_id, HandleKind.EXCHANGE, rows)

    def _write_run(
        self, prefix: str, checkpoint_id: int, index: int, values: Mapping[int, int], recorded: RecordedTtl | None
    ) -> StateHandle:
        details = {} if recorded is None else {TTL: recorded.to_json(), **SPREAD}
        handle = self._write(prefix, checkpoint_id, HandleKind.RUN, sorted(values.items()))
        groups = key_groups_of(index, self.parallelism, self.max_parallelism)
        return replace(handle, key_groups=groups, details=details)

    def _write(self, prefix: str, checkpoint_id: int, kind: HandleKind, rows: Sequence[Row]) -> StateHandle:
        content = json.dumps(rows).encode()
        path = f"{prefix}-{self.world.unique()}.{kind.value.lower()}"
        self.world.storage.write(path, content)
        return StateHandle(path, kind, len(rows), len(content), sha256(content).hexdigest(), checkpoint_id)


def _reads_late(vertex: StepVertex | KeyedVertex | SinkVertex) -> bool:
    return isinstance(vertex, SinkVertex) and vertex.input.output == LATE_ROWS


def _goes(execution: Execution, end: int) -> bool:
    """As the driver says: the plain computation does not ask it."""
    return execution.goes is not None and end <= execution.goes
