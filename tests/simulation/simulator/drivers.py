"""Whoever drives checkpoints: DAG runs whose tasks are processes of their own, retried, abandoned or taken for dead;
people who look, abort and clean at any time. `commands` has those that take all steps in one process.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from user_actions import resume, suspend

from simulator.holding import held_in
from simulator.live_files import lost_a_write
from simulator.region import SimulatedRegion
from simulator.requests import Request, trigger
from simulator.restores import notify
from simulator.scheduler import Process, Violation, require
from simulator.temper import CALM
from tidegate.airflow.outcome import cause_of
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.errors import (
    CheckpointAbandonedError,
    CheckpointDeclinedError,
    CheckpointError,
    CheckpointExpiredError,
    CheckpointHeldError,
    CheckpointNotFoundError,
    CheckpointNotInProgressError,
    CheckpointNotRetainedError,
    CopyInterruptedError,
    DeterministicError,
    FinalizeError,
    ForkRefusedError,
    NotHeldError,
    NothingToUndoError,
    PipelineDefinitionError,
    PipelineFailedError,
    PipelineStatusError,
    RestoreRefusedError,
    SavepointExportError,
    SavepointInUseError,
    SinkError,
    SourceChangedError,
    SourceUnavailableError,
    StateIntegrityError,
    StopIncompleteError,
    StorageError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
    ValidationFailedError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict
from tidegate.protocol.steps.trigger import Dropped, Queued, TriggerOutcome

if TYPE_CHECKING:
    from simulator.world import World

#: What may befall a step in a world like this one. Anything else, a refusal of the store included, is a defect; so is
#: damage, which nothing here does: an attempt that finds a file gone was superseded, and has to say so.
EXPECTED = (
    CheckpointAbandonedError,  # a step of a checkpoint that a restore has left behind
    CheckpointDeclinedError,
    CheckpointExpiredError,
    CheckpointHeldError,
    CheckpointNotFoundError,  # a savepoint that was disposed of, as `savepoints` makes sure
    CheckpointNotInProgressError,
    CheckpointNotRetainedError,  # a restore to what was replaced, as `restores` makes sure
    CopyInterruptedError,  # it stood still, as `savepoints` and `forks` make sure
    FinalizeError,
    ForkRefusedError,  # the same, as `forks` makes sure
    NotHeldError,  # as `holding` makes sure
    NothingToUndoError,  # a restore, as `restores` makes sure
    PipelineDefinitionError,  # the checkpoint was triggered before a rescale
    PipelineFailedError,
    PipelineStatusError,
    RestoreRefusedError,  # a checkpoint has completed since the plan was made
    SavepointExportError,  # a file could not be written
    SavepointInUseError,
    SinkError,  # the disk is full, and nothing worse
    SourceChangedError,  # a file was corrected or records are lost, and nobody has done anything about it yet
    SourceUnavailableError,  # brokers do not answer, in worlds that have any
    StateIntegrityError,  # a write was lost
    StorageError,
    StopIncompleteError,
    StoreUnavailableError,
    SupersededAttemptError,
    UnknownOutcomeError,
    ValidationFailedError,
)
STEPS = ("snapshot", "validate", "finalize", "notify")
POLL_INTERVAL = 5.0  # seconds
MOST_POLLS = 40
DagRun = Iterator[None]
Task = Generator[None, None, Process | None]


@dataclass
class Judge:
    """`ports.Validator`: good, bad, broken or silent."""

    world: "World"
    targets: tuple[str, ...]

    def validate(
        self, checkpoint: CheckpointRecord, subtasks: dict[SubtaskId, SubtaskRecord], settled: list[Verdict]
    ) -> list[Verdict]:
        self.world.point(f"judges chk-{checkpoint.checkpoint_id}")
        carried = {verdict.target for verdict in settled}
        targets = [target for target in self.targets if target not in carried]
        verdicts = [Verdict(target, "s", True, 1, 0) for target in targets]
        if not self.world.strikes("rejection"):
            good, id_ = list(verdicts), checkpoint.checkpoint_id
            overruled = self.world.temper != CALM and self.world.holding.breaks(id_, verdicts)
            if overruled or verdicts == good:
                self.world.messages.judges(id_, subtasks, verdicts)
            return verdicts
        worst = self.world.random.randrange(len(verdicts))
        match self.world.random.choice(["failed", "broken", "missing"]):
            case "failed":
                verdicts[worst] = Verdict(targets[worst], "s", False, 1, 1)
            case "broken":
                verdicts[worst] = Verdict(targets[worst], "s", None, 1, 1, error="it broke")
            case _:
                del verdicts[worst]
        return verdicts


def take_step(world: "World", coordinator: CheckpointCoordinator, step: str, checkpoint_id: int) -> None:
    try:
        _take_step(world, coordinator, step, checkpoint_id)
    except CheckpointAbandonedError as error:
        require(checkpoint_id in world.observer.history.ever_left, f"no restore has done that: {error}")
        raise
    except StateIntegrityError as error:
        lost = step == "finalize" and lost_a_write(world, checkpoint_id)
        require(lost, f"{step} of checkpoint {checkpoint_id} calls damage what its successor did: {error}")
        raise


def _take_step(world: "World", coordinator: CheckpointCoordinator, step: str, checkpoint_id: int) -> None:
    match step:
        case "snapshot":
            coordinator.snapshot(checkpoint_id, SimulatedRegion(world, coordinator.graph))
        case "validate":
            coordinator.validate(checkpoint_id, Judge(world, coordinator.graph.targets))
        case "finalize":
            record = coordinator.finalize(checkpoint_id)
            world.messages.repeats(step, checkpoint_id, (record.completed_at, record.metadata_path, record.state_size))
        case "notify":
            world.messages.repeats(step, checkpoint_id, notify(world, coordinator, checkpoint_id))
        case "abort":
            reason = world.random.choice([FailureReason.TASK_FAILURE, FailureReason.COORDINATOR_SUSPEND])
            coordinator.abort(checkpoint_id, reason, "somebody aborted it")
        case "suspend":
            suspend(coordinator)
        case "resume":
            resume(coordinator)
        case "acknowledge":
            coordinator.acknowledge(checkpoint_id)
        case _:
            raise Violation(f"there is no step {step}")


def attempt(world: "World", step: str, checkpoint_id: int, is_last: bool) -> None:
    """A task of Airflow: one step in a process that knows nothing from before, as `tidegate.airflow.step` takes it."""
    coordinator = world.open_coordinator()
    try:
        take_step(world, coordinator, step, checkpoint_id)
    except EXPECTED as error:
        if isinstance(error, DeterministicError) or is_last:
            abort(world, coordinator, checkpoint_id, step, error)
        raise
    if step == "snapshot" and world.seed % 4 == 1:
        judge_early(world, coordinator, checkpoint_id)


def judge_early(world: "World", coordinator: CheckpointCoordinator, checkpoint_id: int) -> None:
    """The task that took the snapshot judges at once. Whatever comes of that, its step is done."""
    judge = Judge(world, coordinator.graph.targets)
    try:
        is_good = coordinator.validation.validate_early(checkpoint_id, judge)
        world.note(f"judges chk-{checkpoint_id} early: {is_good}")
    except EXPECTED as error:
        world.note(f"judges nothing early: {error}")


def abort(
    world: "World", coordinator: CheckpointCoordinator, checkpoint_id: int, step: str, error: CheckpointError
) -> None:
    if isinstance(error, CheckpointHeldError | StoreUnavailableError | SupersededAttemptError):
        return
    try:
        coordinator.abort(checkpoint_id, *cause_of(step, error))
    except EXPECTED as second:
        world.note(f"cannot record why: {second}")


def dag_run(world: "World", request: Request) -> DagRun:
    """A DAG run of `tidegate.airflow.dag`, advanced by the scheduler now and then;
    each `yield` is a look at its tasks."""
    tries, name = world.random.randint(1, 4), request.request_id

    def ask() -> TriggerOutcome:
        return trigger(world, world.open_coordinator(), request)

    outcome: TriggerOutcome = Queued("not asked yet")
    for _ in range(MOST_POLLS):  # the triggerer looks whether its turn has come
        if not isinstance(outcome, Queued):
            break
        process = yield from _task(world, f"{name}:trigger", tries, lambda last: ask)
        if process is None:
            return
        outcome = process.result
        world.clock.advance(POLL_INTERVAL)
    if isinstance(outcome, Dropped | Queued):
        return
    id_ = outcome.checkpoint_id
    for step in STEPS:
        make = lambda last, step=step: lambda: attempt(world, step, id_, last)  # noqa: E731
        if (yield from _task(world, f"{name}:{step}", tries, make)) is None:
            if step != "notify":
                end = lambda last: lambda: end_dag_run(world, name, FailureReason.TASK_FAILURE)  # noqa: E731
                yield from _task(world, f"{name}:abort", tries, end)
            return


def end_dag_run(world: "World", request_id: str, reason: FailureReason) -> None:
    """What a DAG run asked for has ended with it, whether a task failed or somebody marked the run."""
    record = world.open_coordinator().abort_request(request_id, reason, "the DAG run has ended")
    require(
        record is None or record.status is not Status.IN_PROGRESS, f"{request_id} has ended, its checkpoint has not"
    )


def _task(world: "World", name: str, tries: int, make: Callable[[bool], Callable[[], Any]]) -> Task:
    """Try a task until it succeeds; returns its process, or None if it failed for good. A try that is taken for dead
    lives on beside the next one; one that meets a held checkpoint is deferred, which takes no try."""
    for number in range(1, tries + 1):
        deferred = True
        while deferred:
            process = world.spawn(f"{name}#{number}", make(number == tries))
            while not process.ended and not abandons(world, process):
                yield
            deferred = yield from wait_while_held(world, process)
        if not process.ended:
            world.tell(f"{process.name} is taken for dead")
            process.killed = world.random.random() < 0.3
        elif process.error is None and not process.crashed:
            return process
        elif isinstance(process.error, DeterministicError):
            return None
    return None


def wait_while_held(world: "World", process: Process) -> Generator[None, None, bool]:
    """The triggerer looks whether a person has decided, or the hold has ended. False if the process met no hold."""
    if not (process.ended and isinstance(process.error, CheckpointHeldError)):
        return False
    while (held := held_in(world.store.state)) is not None and world.clock.time < held.ends_at:
        world.clock.advance(POLL_INTERVAL)
        yield
    return True


def abandons(world: "World", process: Process) -> bool:
    """Whether somebody takes a process for dead: mostly one that does not move, now and then one that does."""
    return world.strikes("impatience") or (process.stalled and world.random.random() < 0.3)


def meddle(world: "World") -> None:
    """Somebody looks, cleans, aborts by hand or marks a DAG run, or an old report comes in after all."""
    ids = list(world.store.state.checkpoints)
    steps = ["clean", "suspend", "resume", "resume"]
    if world.dag_runs:
        steps.append("mark")
    if ids:
        steps += ["acknowledge", "acknowledge", "abort", "notify", "finalize"]
    if world.late_reports:
        steps += ["report", "report", "report"]
    step = world.random.choice(steps)
    if step == "clean":
        world.spawn("somebody:clean", lambda: world.open_coordinator().clean())
    elif step in ("suspend", "resume"):
        world.spawn(f"somebody:{step}", lambda: take_step(world, world.open_coordinator(), step, 0))
    elif step == "mark":
        marked = world.random.choice(world.dag_runs)[0].request_id
        end = lambda: end_dag_run(world, marked, FailureReason.COORDINATOR_SUSPEND)  # noqa: E731
        world.spawn(f"{marked}:abort of a marked run", end)
    elif step == "report":
        id_, acks = world.late_reports.pop(world.random.randrange(len(world.late_reports)))

        def report() -> None:
            results = world.open_coordinator().record_acknowledgements(id_, acks)
            world.messages.answers(id_, acks, results)

        world.spawn(f"late:report of chk-{id_}", report)
    else:
        id_ = ids[-1] if world.random.random() < 0.7 else world.random.choice(ids)
        world.spawn(f"somebody:{step} chk-{id_}", lambda: take_step(world, world.open_coordinator(), step, id_))
