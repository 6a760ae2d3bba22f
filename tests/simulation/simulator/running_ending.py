"""The end of a simulated continuous run: the rest is read in peace,
and everything is compared with a plain execution."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from user_actions import resume, suspend

from simulator.holding import held_in
from simulator.running_emitting import EMITTED_TO, Numbers
from simulator.running_expiring import LIVES_TABLES, check_lives_in_the_end
from simulator.running_parts import TICKETS, Rows
from simulator.running_plain import plain_execution
from simulator.running_restores import draw_target, restore
from simulator.running_windows import LATE_TABLE, SHOWN
from simulator.scheduler import require
from tidegate.coordination.recovery.restore import Target, ToCheckpoint, Undo
from tidegate.dataflow.in_flight import in_flight_of
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import ReferencingSink, SinkInput
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import with_markers
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import HandleKind, Snapshot, SubtaskId

if TYPE_CHECKING:
    from simulator.running import Running

PEACE = 1500  # rounds in which everything must have come to an end


class Ending:
    """Of one world, in which nothing goes wrong any more."""

    def __init__(self, world: "Running") -> None:
        self.world = world

    def finish(self) -> None:
        """Raises `Violation`."""
        self.world.trouble = 0.0
        self.world.tell("everything calms down")
        self.world.processes.clear()
        self.world.clock.advance(400)
        coordinator = self.world.coordinator()
        if (
            self.world.store.state.pipeline is not None
            and self.world.store.state.pipeline.status is PipelineStatus.STOPPING
        ):
            suspend(coordinator)
        self.world.attempt(lambda: resume(coordinator))
        self._decide()
        for source in self.world.sources:
            source.arrive_all()
        if not self._is_over():
            self._run_to_the_end()
        self._settle()
        if self.world.restores and (target := draw_target(self.world)) is not None:
            self._come_back(target)

    def _decide(self) -> None:
        """What is held in the end is approved, or rejected, or nobody decides."""
        holding = self.world.holding
        holding.haste = holding.random.choice([0.0, 0.5])
        while (held := held_in(self.world.store.state)) is not None:
            self.world.decide()
            self.world.clock.advance(10)
            self.world.attempt(lambda held=held: self.world.coordinator().acknowledge(held.checkpoint_id))

    def _come_back(self, target: Target) -> None:
        """What was read since is read once more, and what was in flight then is there again."""
        restore(self.world, ToCheckpoint(None) if isinstance(target, Undo) else target)
        self.world.attempt(lambda: resume(self.world.coordinator()))
        if not self._is_over():
            self._run_to_the_end()
        self._settle()

    def _settle(self) -> None:
        self.world.clock.advance(3 * 3600)
        coordinator = self.world.coordinator()
        coordinator.cleaning.clean() if self.world.cleanings else coordinator.clean()
        self.world.checks.check_kept()
        self._check_end()

    def _run_to_the_end(self) -> None:
        process, asked = self.world.begin(), 0
        for done in range(PEACE):
            # where a checkpoint takes as long as the interval, another is always in progress, until time goes slower
            self.world.clock.advance(0.6 if done < PEACE / 2 else 0.1)
            if process.later.jobs:
                self.world.complete(process)
            self.world.go_on(process)
            if process not in self.world.processes:
                break
            in_progress = any(r.status is Status.IN_PROGRESS for r in self.world.store.state.checkpoints.values())
            bounded = all(source.bounded for source in self.world.sources)
            if self._all_is_read() and not (in_progress or process.later.jobs or bounded):
                self.world.attempt(process.run.end)
                break
            if process.run._pace.idle and not (in_progress or process.later.jobs or bounded):
                asked += 1
                self.world.coordinator().trigger(f"last-{asked}")
        else:
            require(False, "nothing is wrong any more, but the rest is never read and committed")

    def _latest(self) -> dict[SubtaskId, Snapshot]:
        rows = self.world.store.state.subtasks.get(self.world.checks.now, {})
        return {key: row.snapshot for key, row in rows.items()}

    def _all_is_read(self) -> bool:
        offsets = self.world.checks.offsets(self._latest())
        wanted = {SubtaskId(s.name, split): n for s in self.world.sources for split, n in enumerate(s.lengths)}
        present = self.world.checks.branches[self.world.checks.now]
        told = all(self.world.store.state.checkpoints[id_].notified_at is not None for id_ in present)
        on_its_way = any(in_flight_of(snapshot) for snapshot in self._latest().values())
        return offsets == wanted and told and not on_its_way

    def _is_over(self) -> bool:
        return (
            self.world.store.state.pipeline is not None
            and self.world.store.state.pipeline.status is PipelineStatus.FINISHED
        )

    def _check_end(self) -> None:
        require(self._all_is_read(), "the pipeline ended before everything was read and told")
        bounded = all(source.bounded for source in self.world.sources)
        require(self._is_over() == bounded, f"the pipeline has {'' if self._is_over() else 'not '}finished")
        snapshots = self._latest()
        expected, states = (
            plain_execution(self.world.graph, self.world.checks.offsets(snapshots)),
            self.world.checks.states(snapshots),
        )
        self.world.checks.check_windows_in_the_end(snapshots)
        for vertex in self.world.graph.keyed:
            if vertex.window is None and vertex.ttl is None:
                self.world.checks.compare("in the end", vertex.name, states, expected)
        for sink in self.world.graph.sinks:
            if sink.name not in (*TICKETS, SHOWN, LATE_TABLE, *LIVES_TABLES.values()):
                self._check_sink(sink, expected)
        check_lives_in_the_end(self.world)
        self._check_tickets()
        self._check_files()

    def _check_tickets(self) -> None:
        """Every row has drawn one, which all who show it agree on. At least once, it may have drawn again."""
        tables: list[Any] = [sink.sink for sink in self.world.graph.sinks if sink.name in TICKETS]
        shown = [Counter(tuple(r) for rows in t.visible.values() for file in rows for r in file) for t in tables]
        lengths = self.world.sources[0].lengths
        all_rows = Counter((split, at) for split, n in enumerate(lengths) for at in range(n))
        for tickets in shown:
            rows = Counter((split, at) for split, at, _ in tickets.elements())
            enough = rows == all_rows if self.world.config.mode == "EXACTLY_ONCE" else not all_rows - rows
            require(enough, f"tickets were drawn for {rows}, and should be for {all_rows}")
        agreed = self.world.config.mode != "EXACTLY_ONCE" or not shown or shown[0] == shown[1]
        require(agreed, f"who shows what a step drew sees different rows: {shown}")

    def _check_sink(self, sink: SinkVertex, expected: dict[str, Rows]) -> None:
        table: Any = sink.sink
        shown = [[tuple(row) for rows in table.visible[id_] for row in rows] for id_ in sorted(table.visible)]
        if sink.input.origin not in expected:
            rows = Counter(row for checkpoint in shown for row in checkpoint)
            log = next(source for source in self.world.sources if source.name == sink.input.origin)
            all_rows = Counter((split, at) for split, n in enumerate(log.lengths) for at in range(n))
            enough = rows == all_rows if self.world.config.mode == "EXACTLY_ONCE" else not all_rows - rows
            require(enough, f"{sink.name} shows {rows}, and should {all_rows}")
            return
        if sink.name == EMITTED_TO:
            rows = Counter(row for checkpoint in shown for row in checkpoint)
            log = self.world.sources[0]
            all_rows = Counter(Numbers().emit({}, [(s, at) for s, n in enumerate(log.lengths) for at in range(n)]))
            enough = rows == all_rows if self.world.config.mode == "EXACTLY_ONCE" else not all_rows - rows
            require(enough, f"{sink.name} shows {rows}, but emitted was {all_rows}")
            return
        if sink.sink.input is SinkInput.CHANGES:
            for checkpoint in shown:
                require(len(dict(checkpoint)) == len(checkpoint), f"{sink.name} shows a key twice: {checkpoint}")
        seen = shown if sink.sink.input is SinkInput.CHANGES else shown[-1:]
        come_to = dict(row for checkpoint in seen for row in checkpoint)
        come_to = table.upserted() if table.input is SinkInput.UPSERTS else come_to
        current = {sink.input.origin: come_to}
        self.world.checks.compare(sink.name, sink.input.origin, current, expected)

    def _check_files(self) -> None:
        needed = set(self.world.store.state.compactions)
        staged = set()
        for id_, record in self.world.store.state.checkpoints.items():
            if record.status is Status.COMPLETED:
                needed.update(with_markers([record.metadata_path or ""]))
                for row in self.world.store.state.subtasks[id_].values():
                    for handle in row.snapshot.handles:
                        (staged if handle.kind is HandleKind.STAGED else needed).add(handle.path)
        left = set(self.world.disk.files) - needed
        require(not left, f"files that nothing refers to are left: {sorted(left)[:5]}")
        tables = [sink.sink for sink in self.world.graph.sinks]
        left = {path for table in tables for path in _not_taken_over(table)} - staged
        require(not left, f"staged files that nothing refers to are left: {sorted(left)[:5]}")


def _not_taken_over(table: Any) -> set[str]:
    return set(table.staged).difference(
        table.referenced(list(table.staged)) if isinstance(table, ReferencingSink) else ()
    )
