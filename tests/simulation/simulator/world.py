"""One simulated run: a random pipeline, its input, whoever works on it, and a seed that decides everything.

First trouble, as much as the seed's temper brings; then everybody finishes in peace, the rest of the input is read, and
what is visible and what lies on storage must be exactly what a plain execution gives.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import count
from random import Random
from typing import Any

from records import T0
from user_actions import resume
from worlds import Crash

from simulator.changes import change
from simulator.cleaning import clean
from simulator.clocks import MovingClocks
from simulator.commands import command_run, driver_of, lives_on, patience
from simulator.comparison import Comparison
from simulator.disk import SimulatedDisk
from simulator.drivers import EXPECTED, dag_run, meddle
from simulator.emitting import emitting
from simulator.ending import finish
from simulator.expiring import expiring
from simulator.forked import Forked
from simulator.forks import use_forks
from simulator.graphs import PIPELINE_ID, describe, draw_pipeline, rebuilt
from simulator.hearing import listening
from simulator.holding import Holding, let_people_decide
from simulator.kafka import in_memory
from simulator.messages import Messages
from simulator.observer import Observer
from simulator.peace import live_a_while
from simulator.raised import require_harmless
from simulator.replacing import Corrections, let_people_correct
from simulator.requests import Request, of_dag_run
from simulator.restores import draw_target, restore
from simulator.savepoints import use_savepoints
from simulator.scheduler import Process, Scheduler, Violation
from simulator.sinks import SimulatedSink
from simulator.sources import SimulatedSource
from simulator.stops import has_finished
from simulator.storage import SimulatedStorage
from simulator.store import SimulatedStore
from simulator.temper import CALM, draw_temper
from simulator.topic_changes import let_topics_change
from simulator.topic_sinks import has_topics, kafka_of, with_commits
from simulator.windowed import windows
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.records import CheckpointKind

#: Leftovers of ended checkpoints are looked for during an hour: nobody may live longer than that, unless somebody runs
#: `tidegate clean`, which finds all.
LONGEST_LIFE, WITH_CLEANING = timedelta(minutes=50), timedelta(hours=5)


class SimulatedClock:
    """Time passes between steps, and only there. Machines do not quite agree on it."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.time = T0

    def now(self) -> datetime:
        process = self.world.scheduler.current
        if process is None:
            return self.time
        process.read_clock_at = self.time + timedelta(seconds=process.skew) + self.world.clocks.of(process)
        process.reads.append(process.read_clock_at)
        return process.read_clock_at

    def monotonic(self) -> float:
        return self.time.timestamp()

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def sleep(self, seconds: float) -> None:
        """Others go on meanwhile."""
        self.advance(seconds)
        self.world.point(f"has waited {seconds:.1f} s")


class World:
    """Everything outside the code under test."""

    pipeline_id = PIPELINE_ID

    def __init__(self, seed: int, trace: int | None = 40) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.aside = Random(f"aside {seed}")  # for what came later: so the rest stays as it was drawn
        self.holding = Holding(seed, "scheduled")
        self.forking = Random(f"forks {seed}")  # for the same reason
        self.waits, self.clocks = patience(seed), MovingClocks(seed, "scheduled")
        self.emitting, self.expiring, self.windows = emitting(seed), expiring(seed), windows(seed)
        self.temper = self.drawn = with_commits(seed, draw_temper(self.random, self.aside, self.forking))
        self.clock = SimulatedClock(self)
        self.scheduler = Scheduler(self.random, self.choose, lambda: self.clock.time, trace)
        self.met: Counter[str] = Counter()  # the trouble there was
        self.storage = SimulatedStorage(self)
        self.store = SimulatedStore(self)
        self.disk = SimulatedDisk(self._disk_step, self._changed, lambda: self.clock.time)
        self.kafka = kafka_of(self)
        self.sources: dict[str, SimulatedSource] = {}
        self.sinks: dict[str, SimulatedSink] = {}
        self.tables: dict[str, SimulatedSink] = {}  # by directory, those of forks too
        self.forks: list[Forked] = []
        self.pipeline = draw_pipeline(self, self.random)
        self.graph = compile_graph(self.pipeline)
        self.corrections = Corrections(self)
        self.comparison = Comparison(self, self.graph)
        self.messages, self.observer = Messages(self, self.graph), Observer(self, self.graph)
        self.late_reports: list = []
        self.births: dict[Process, datetime] = {}
        self.foreign: set[str] = set()  # files that a lost database knew
        self.dag_runs: list[tuple[Request, Iterator[None]]] = []
        self.requests: dict[str, Request] = {}
        self.length = self.random.choice([200, 400, 400, 600, 1000])  # steps until it calms down
        self.length *= (2 if self.drawn.forking else 1) * (3 if has_topics(seed) else 1)  # half of them are of forks
        self.clearings = 3
        self._asked, self._unique, self._names, self._ending = 0, 0, count(), False

    def describe(self) -> list[str]:
        """This run for somebody who looks for a mistake."""
        return [
            *describe(self),
            f"Trouble: {self.drawn}",
            f"The last of {self.scheduler.steps} steps, by seconds:",
            *(f"  {(at - T0).total_seconds():9.3f}  {who:24} {what}" for at, who, what in self.scheduler.trace),
        ]

    # -- what everybody uses

    def open_coordinator(self) -> CheckpointCoordinator:
        self.pipeline.listeners = listening(lambda: self.store.state, self.point, self.messages.missed)
        return CheckpointCoordinator(self.pipeline, self.store, self.storage, self.clock)

    def point(self, what: str) -> None:
        if self.scheduler.current is not None and self.strikes("stall"):
            self.note("stalls")
            self.scheduler.current.stalled = True
        self.scheduler.point(what, lambda: self.strikes("crash"))

    def _disk_step(self, what: str) -> None:
        if self.scheduler.current is not None and self.strikes("hang"):
            self.note("hangs")
            self.scheduler.current.stalled = self.scheduler.current.hangs = True
        self.point(what)

    def _changed(self, path: str) -> None:
        self.tables["/" + path.split("/")[1]].check()

    def note(self, what: str) -> None:
        self.scheduler.note(what)

    def tell(self, what: str) -> None:
        """Something that is no process's doing."""
        self.scheduler.note(what, "*")

    def strikes(self, trouble: str) -> bool:
        """Whether this kind of trouble comes now."""
        probability = getattr(self.temper, trouble)
        if probability == 0 or self.random.random() >= probability:
            return False
        self.met[trouble] += 1
        return True

    def die(self, what: str) -> None:
        assert self.scheduler.current is not None
        self.scheduler.current.killed = True
        self.note(f"dies {what}")
        raise Crash(what)

    def unique(self) -> int:
        """Differs for every execution."""
        self._unique += 1
        return self._unique

    def name(self) -> str:
        """One that nobody else has."""
        return f"{next(self._names):x}"

    def spawn(self, name: str, body: Callable[[], Any]) -> Process:
        def guarded() -> Any:
            try:
                return body()
            except EXPECTED as error:
                self.note(f"{type(error).__name__}: {error}")
                require_harmless(self, error)
                raise
            except Exception as error:
                raise Violation(f"{name} met {type(error).__name__}: {error}") from error

        process = self.scheduler.spawn(name, guarded)
        self.births[process] = self.clock.time
        process.skew = self.random.uniform(-20, 20) if self.strikes("skew") else 0.0
        return process

    # -- who is next

    def choose(self) -> Process | None:
        """Let time pass and things happen, then name the process that goes on; None when all is done."""
        scheduler, random = self.scheduler, self.random
        while True:
            self.clock.advance(random.expovariate(10))
            if self.strikes("leap"):
                self.clock.advance(random.choice([20, 60, 300, 700]))
                self.tell("time passes")
            self._reap()
            if not self._ending and scheduler.steps > self.length:
                self._calm_down()
            current = scheduler.current
            if (
                current is not None
                and not (current.ended or current.stalled)
                and random.random() < self.temper.stickiness
            ):
                return current
            moving = [process for process in scheduler.processes if not process.stalled]
            if random.random() < (0.15 if moving else 0.95):
                self._let_something_happen()
                if not scheduler.processes and not self.dag_runs and self._ending:
                    return None
                continue
            candidates = moving if moving and random.random() < 0.997 else scheduler.processes
            if len(candidates) == 1:
                return candidates[0]
            if candidates:
                return random.choices(candidates, [process.weight for process in candidates])[0]

    def _reap(self) -> None:
        longest = WITH_CLEANING if self.drawn.cleaning and not self.foreign else LONGEST_LIFE
        for process in self.scheduler.processes:
            if self.clock.time - self.births[process] > longest:
                process.killed = True

    def _let_something_happen(self) -> None:
        if self.random.random() < 0.3:
            self.arrive()
        if not self._ending:
            if self.strikes("meddling"):
                meddle(self)
            let_people_decide(self)
            if self.strikes("restore") and (target := draw_target(self)) is not None:
                self.spawn(f"somebody:{target}", lambda: restore(self, target))
            if has_finished(self.store.state) and self.random.random() < 0.3:
                self.spawn("somebody:resume", lambda: resume(self.open_coordinator()))
            if self.strikes("saving"):
                use_savepoints(self)
            if self.strikes("cleaning"):
                self.spawn("somebody:tidegate clean", lambda: clean(self))
            if self.strikes("forking"):
                use_forks(self)
            let_people_correct(self)
            let_topics_change(self)
            if self.strikes("changes"):
                self.spawn("somebody:tidegate plan", lambda: change(self))
            if self.strikes("rescale"):
                self.pipeline = rebuilt(self.pipeline, parallelism=self.random.choice([1, 2, 3, 4]))
                self.tell(f"from now on the pipeline has parallelism {self.pipeline.parallelism}")
            if not self.dag_runs:
                self.clock.advance(self.random.choice([1, 10, 100, 700]))
            if not self.dag_runs or self.random.random() < 0.05:
                self._ask()
        if self.dag_runs:
            self._take_turn(self.random.randrange(len(self.dag_runs)))

    def _ask(self) -> None:
        self._asked += 1
        if self.dag_runs and self.random.random() < 0.2:  # the same once more: two drivers of one request
            request, _ = self.random.choice(self.dag_runs)
            self.dag_runs.append((request, dag_run(self, request)))
        elif (left := self._left_behind()) and self.random.random() < 0.4:  # corrected, it is cleared
            request = self.random.choice(left)
            self.dag_runs.append((request, dag_run(self, request)))
        elif self.random.random() < 0.07:
            request = Request(
                f"stop-{self._asked}", kind=CheckpointKind.SYNC_SAVEPOINT, drain=self.random.random() < 0.3
            )
            self.dag_runs.append((request, self.random.choice([dag_run, command_run])(self, request)))
        elif self.random.random() < 0.25:
            request = Request(f"cli:{self._asked}", wait=self.waits())
            self.dag_runs.append((request, command_run(self, request)))
        else:
            savepoint = self.random.random() < (0.4 if self.temper.saving else 0.1)
            request = Request(
                f"program-{self._asked}" if lives_on(self) else of_dag_run(self._asked),
                periodic=not savepoint and self.random.random() < 0.6,
                kind=CheckpointKind.SAVEPOINT if savepoint else CheckpointKind.CHECKPOINT,
                wait=self.random.random() < 0.7,
            )
            self.dag_runs.append((request, driver_of(self)(self, request)))
        self.requests[request.request_id] = request
        self.tell(f"{request.request_id} begins")

    def _left_behind(self) -> list[Request]:
        """Whose checkpoints a restore has left behind."""
        left = [self.store.state.checkpoints[id_].request_id for id_ in sorted(self.observer.history.left_by)]
        return [self.requests[request_id] for request_id in left if request_id in self.requests]

    def _take_turn(self, number: int) -> None:
        request, run = self.dag_runs[number]
        try:
            next(run)
        except StopIteration:
            del self.dag_runs[number]
            self.tell(f"{request.request_id} is over")
            if not self._ending and self.clearings and self.strikes("clearing"):
                self.clearings -= 1
                self.tell(f"{request.request_id} is cleared")
                self.dag_runs.append((request, dag_run(self, request)))

    def arrive(self) -> bool:
        """Something comes in at a source, if anything is left to come."""
        splits = [(source, split) for source in self.sources.values() for split in range(source.num_splits())]
        waiting = [(source, split) for source, split in splits if source.missing(split)]
        if waiting:
            source, split = self.random.choice(waiting)
            source.arrive(split)
        return bool(waiting)

    def _calm_down(self) -> None:
        """No more trouble: everybody finishes what they are doing, those last who hang in a commit."""
        self._ending = True
        self.temper = CALM
        for process in self.scheduler.processes:
            process.stalled = process.hangs
        self.tell("everything calms down")

    def _begin_in_peace(self) -> None:
        self.temper = CALM
        live_a_while(self)
        self.temper = self.drawn
        self.length += self.scheduler.steps

    def run(self) -> "World":
        """Raises `Violation`, or whatever else should not have happened."""
        with self.disk.in_use(), in_memory(self.clock):
            if self.drawn.restore or self.drawn.saving or self.drawn.forking or self.corrections.drawn:
                self._begin_in_peace()
            self.scheduler.run()
            finish(self)
        return self
