"""One simulated continuous pipeline: the real run, region, gates, coordinator and rules around plain operators, and a
seed that decides what fails, who else asks, looks or aborts, and which process goes on although another took its place.

First trouble, then peace: what readers see, the state and the files must be exactly what a plain execution gives.
"""

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor
from random import Random
from typing import Any

from executors import Later, LaterBut
from user_actions import resume, suspend
from worlds import Crash, ManualClock

from simulator.clocks import MovingClocks, check_waits
from simulator.directories import require_closed
from simulator.emitting import emitting
from simulator.expiring import expiring
from simulator.hearing import listening
from simulator.holding import Holding
from simulator.kafka import in_memory
from simulator.overlapping import Overlapping
from simulator.running_ages import Ages, ToldDriver
from simulator.running_checks import Checks
from simulator.running_ending import Ending
from simulator.running_graphs import draw_config, draw_pipeline, draw_source, with_rules
from simulator.running_parts import (
    Disk,
    PlainJobs,
)
from simulator.running_ports import NAME, Absent, Judge, Shaky
from simulator.running_restores import clean, draw_target, restore
from simulator.running_topic_sources import change_splits, with_topics
from simulator.running_topics import kafka_of, with_commits
from simulator.running_windows import draw_windows
from simulator.scheduler import require
from simulator.windowed import windows
from tidegate.coordination.continuous.continuous_run import ContinuousRun
from tidegate.coordination.continuous.recording import Recording
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.dataflow.jobs import Parts
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.continuous.regions import RegionStart
from tidegate.protocol.facts.errors import CheckpointError, StateIntegrityError, StorageError
from tidegate.protocol.facts.paths import shared_directory
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind


class Process:
    """A continuous run, alive or believed dead."""

    def __init__(self, run: ContinuousRun, random: Random, records_late: bool) -> None:
        self.run = run
        self.later = Later(random) if records_late else LaterBut(Recording, random)
        self.started = False


class Running:
    """One simulated run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.trouble = self.drawn = random.choice([0.0, 0.002, 0.006, 0.02])
        self.kills = random.choice([0.0, 0.01, 0.05])  # per step
        self.haste = random.choice([0.1, 0.3, 0.9])  # with which rows arrive
        self.clock = ManualClock()
        self.aside = aside = Random(f"aside {seed}")  # for what came later: so the rest stays as it was drawn
        self.restores = aside.choice([0.0, 0.0, 0.01, 0.05])  # per step
        self.cleanings = aside.choice([0.0, 0.0, 0.02])  # the same
        self.holding = Holding(seed, "continuous")
        self.overlapping = Overlapping(seed)
        self.clocks = MovingClocks(seed, "continuous")
        self.emitting = emitting(seed)
        self.windows = windows(seed)
        self.expiring = expiring(seed)
        self.ages = Ages(self.clock.now)
        self.checks = Checks(self)
        self.trace: deque[str] = deque(maxlen=60)
        self.store = Shaky(self)
        self.kafka = kafka_of(self)
        self.disk = Disk(
            self.effect, self.checks.deletes, lambda directory: require_closed(self.store.state, NAME, directory)
        )
        self.processes: list[Process] = []
        self.met: Counter[str] = Counter()
        self.verified = 0
        self._unique = 0
        self.sources: list[Any] = [draw_source(random, number) for number in range(random.randint(1, 2))]
        self.config = draw_config(random, aside)
        with_commits(self)
        self.has_windows = draw_windows(self)
        self.sources = with_topics(self)
        self.config = self.overlapping.draw(self.config)
        self.pipeline = with_rules(self, draw_pipeline(self))
        self.graph = compile_graph(self.pipeline)
        self._asked: list[tuple[str, CheckpointKind]] = []

    def describe(self) -> list[str]:
        """This run for somebody who looks for a mistake."""
        reads = {v.name: [stream.origin for stream in v.inputs] for v in self.graph.keyed}
        return [
            f"Continuous, {self.config.mode}, unaligned {self.config.unaligned}, {self.config.max_concurrent} at once, "
            f"parallelism {self.pipeline.parallelism}",
            f"Logs of {[source.lengths for source in self.sources]}, operators read {reads}, sinks of "
            f"{[sink.input.origin for sink in self.graph.sinks]}; trouble {self.drawn}",
            *self.trace,
        ]

    # -- what goes wrong

    def strikes(self, factor: float) -> bool:
        return self.trouble > 0 and self.random.random() < self.trouble * factor

    def effect(self, what: str) -> None:
        if what.startswith("writes ") and what.endswith("/_metadata"):
            self.overlapping.meanwhile(self)
        if self.strikes(1):
            self.tell(f"dies where it {what}")
            raise Crash(what)
        if self.strikes(1):
            self.tell(f"fails where it {what}")
            raise StorageError(f"it cannot go on where it {what}")

    def _hears(self, what: str) -> None:
        if self.strikes(1):
            self.tell(f"dies where it {what}")
            raise Crash(what)

    def tell(self, what: str) -> None:
        self.trace.append(what)

    def unique(self) -> int:
        self._unique += 1
        return self._unique

    # -- who does what

    def coordinator(self) -> CheckpointCoordinator:
        self.pipeline.listeners = listening(lambda: self.store.state, self._hears, self.checks.missed)
        return CheckpointCoordinator(self.pipeline, self.store, self.disk, self.clock)

    def begin(self) -> Process:
        limit = self.random.choice([1, 1, 2, 5])
        change_splits(self)

        def open_region(start: RegionStart, background: Executor) -> ToldDriver:
            said = self.ages.begin(start.checkpoint_id)
            jobs = PlainJobs(self.graph, self.disk, self.effect, self.unique, self.random, said)
            parts = Parts(self.graph, self.disk, jobs, self.clock, lambda: f"{self.unique():x}")
            directory = shared_directory(NAME, start.attempt)
            self.tell(f"attempt {start.attempt} goes on from checkpoint {start.checkpoint_id}")
            driver = ToldDriver(parts, directory, start.attempt, start.restored, background, limit)
            driver.tell(said)
            driver.merge_after(self.aside.choice([1, 4, 16]))
            return driver

        judge: Any = Judge(self)
        run = ContinuousRun(self.coordinator(), open_region, judge, self.random)
        process = Process(run, self.random, records_late=self.seed % 4 == 3)
        self.processes.append(process)
        return process

    def go_on(self, process: Process) -> None:
        """One round of a run; one that ends says so to the store if it can."""
        ended, before = True, process.run._now
        try:
            if not process.started:
                process.run.start(process.later)
                process.started = True
            ended = process.run.round()
            if not ended:
                check_waits(self, process, before)
            if ended:
                while process.later.jobs:
                    process.later.work()
                process.run.leave()
        except Crash:
            self.met["crash"] += 1
            self.processes.remove(process)
            return
        except CheckpointError as error:
            self.met[type(error).__name__] += 1
            require(not isinstance(error, StateIntegrityError), f"a run calls damage what its successor did: {error}")
            self.tell(f"a run ends: {type(error).__name__}: {str(error)[:150]}")
        if ended:
            self.attempt(process.run.end)
            if process in self.processes:
                self.processes.remove(process)
            if self.overlapping.random.random() < 0.5:  # threads beside the rounds still end what they have begun
                while process.later.jobs:
                    self.attempt(process.later.work)

    def complete(self, process: Process) -> None:
        try:
            process.later.work()
        except Crash:
            self.met["crash"] += 1
            self.processes.remove(process)

    def attempt(self, step: Callable[[], Any]) -> Any:
        """Something that somebody tries, as a process of its own."""
        try:
            return step()
        except Crash:
            self.met["crash"] += 1
        except CheckpointError as error:
            self.tell(f"{type(error).__name__}: {str(error)[:150]}")
        return None

    def _finalize(self, coordinator: CheckpointCoordinator, checkpoint_id: int) -> None:
        coordinator.validate(checkpoint_id, Judge(self))
        coordinator.finalize(checkpoint_id, notifies=True)

    def meddle(self) -> None:
        random, coordinator = self.random, self.coordinator()
        ids = list(self.store.state.checkpoints)
        newest = self.overlapping.one_of(self, ids[-1] if ids else 0)
        steps: list[tuple[str, Callable[[], Any]]] = [
            ("asks", lambda: self._ask(coordinator)),
            ("asks", lambda: self._ask(coordinator)),
            ("cleans", coordinator.clean),
            ("finalizes", lambda: self._finalize(coordinator, newest)),
            ("notifies", lambda: coordinator.notify(newest)),
        ]
        if self.trouble:
            steps += [
                ("aborts", lambda: coordinator.abort(newest, FailureReason.TASK_FAILURE, "somebody aborted it")),
                ("takes it as a scheduled run would", lambda: coordinator.snapshot(newest, Absent())),
                ("suspends", lambda: suspend(coordinator)),
                ("resumes", lambda: resume(coordinator)),
            ]
        what, step = random.choice(steps)
        if ids or what in ("asks", "cleans"):
            self.tell(f"somebody {what} ({newest})")
            self.attempt(step)

    def decide(self) -> None:
        """People decide about what is held, or think that they do."""
        for request in self.holding.draw(self.store.state, self.clock.now()):
            self.tell(f"{request[2]}: {request[1]} ({request[0]})")
            self.attempt(lambda request=request: self.holding.carry_out(self.coordinator(), request))

    def _ask(self, coordinator: CheckpointCoordinator) -> None:
        if self._asked and self.random.random() < 0.3:
            request, kind = self.random.choice(self._asked)
        else:
            kinds = [CheckpointKind.CHECKPOINT] * 3 + [CheckpointKind.SAVEPOINT, CheckpointKind.SYNC_SAVEPOINT]
            request, kind = f"r{len(self._asked)}", self.random.choice(kinds)
            self._asked.append((request, kind))
        outcome = coordinator.trigger(request, kind=kind, wait=self.random.random() < 0.5)
        self.tell(f"{request} {kind}: {type(outcome).__name__}")

    def step(self) -> None:
        random = self.random
        self.clock.advance(random.expovariate(1))
        self.clock.wrong = self.clocks.of(None)
        for source in self.sources:
            split = random.randrange(len(source.lengths))
            if random.random() < self.haste and source.arrived[split] < source.lengths[split]:
                source.arrive(split)
        if self.strikes(2):
            self.clock.advance(random.choice([20, 70, 400]))
            self.tell("time passes")
        if self.processes and self.trouble and random.random() < self.kills:
            self.tell("the newest run is killed")
            self.processes.pop()
        if not self.processes or self.strikes(1):
            if self.processes:
                self.tell("a second run begins")
            self.begin()
        process = self.processes[-1] if random.random() < 0.9 else random.choice(self.processes)
        if process.later.jobs and random.random() < self.overlapping.pace:
            self.complete(process)
        else:
            self.go_on(process)
        if random.random() < 0.05:
            self.meddle()
        self.decide()
        if self.aside.random() < self.cleanings:
            self.attempt(lambda: clean(self))
        if self.aside.random() < self.restores and (target := draw_target(self)) is not None:
            self.attempt(lambda: restore(self, target))
            self.checks.check_kept()
        status = self.store.state.pipeline.status if self.store.state.pipeline else PipelineStatus.CREATED
        if (
            status in (PipelineStatus.SUSPENDED, PipelineStatus.FINISHED, PipelineStatus.FAILED)
            and random.random() < 0.3
        ):
            self.attempt(lambda: resume(self.coordinator()))

    def run(self) -> "Running":
        """Raises `Violation`, or whatever else should not have happened."""
        with in_memory(self.clock):
            for _ in range(self.random.choice([100, 200, 400])):
                self.step()
            Ending(self).finish()
        return self
