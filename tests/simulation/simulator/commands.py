"""Who takes all steps of a checkpoint in one process: `tidegate run`, and programs that hold a coordinator."""

import sys
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from simulator.drivers import EXPECTED, STEPS, DagRun, abandons, abort, dag_run, take_step, wait_while_held
from simulator.requests import Request, trigger
from simulator.scheduler import Crash
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.errors import UnknownOutcomeError
from tidegate.protocol.steps.trigger import Dropped, Queued

if TYPE_CHECKING:
    from simulator.world import World


#: The coordinator of the program that lives on, by what was deployed when it was last at work: when that is another
#: pipeline, the program begins anew.
_LIVING: "WeakKeyDictionary[World, dict[int, CheckpointCoordinator]]" = WeakKeyDictionary()


def lives_on(world: "World") -> bool:
    """Whether checkpoints are taken by a program that lives on with what it knows, and takes a step again whose outcome
    is unknown. Worlds with forks or savepoints of people have enough to do."""
    return world.seed % 5 == 2 and not (world.drawn.forking or world.drawn.saving)


def driver_of(world: "World") -> Callable[["World", Request], DagRun]:
    return command_run if lives_on(world) else dag_run


#: Chosen so that seeds which alone are known to notice a rare planted mistake draw what they always drew.
_SALT = 172


def patience(seed: int) -> Callable[[], bool]:
    """Whether a command waits for its turn: in some worlds every other one does, and dies as soon as it has to. It is
    drawn apart, so that a world without them stays as it was."""
    random = Random(f"patience {_SALT} {seed}")
    some = random.random() < 0.1
    return lambda: some and random.random() < 0.5


def command_line(world: "World", request: Request) -> None:
    """All steps in one process, which aborts what fails: `tidegate run`."""
    run_all_steps(world, world.open_coordinator(), request)


def run_all_steps(world: "World", coordinator: CheckpointCoordinator, request: Request, tries: int = 1) -> None:
    """`tries` of a step whose outcome is unknown."""
    outcome = trigger(world, coordinator, request)
    if isinstance(outcome, Dropped | Queued):
        return
    try:
        for step in STEPS:
            _try_step(world, coordinator, step, outcome.checkpoint_id, tries)
    except EXPECTED as error:
        if not isinstance(error, UnknownOutcomeError):
            abort(world, coordinator, outcome.checkpoint_id, "run", error)
        raise


def _try_step(world: "World", coordinator: CheckpointCoordinator, step: str, checkpoint_id: int, tries: int) -> None:
    for left in reversed(range(tries)):
        try:
            return take_step(world, coordinator, step, checkpoint_id)
        except UnknownOutcomeError:
            if not left:
                raise


def command_run(world: "World", request: Request) -> DagRun:
    """Somebody who starts the command again when it failed."""

    def run() -> None:
        if not lives_on(world):
            return command_line(world, request)
        coordinator = _LIVING.pop(world, {}).get(id(world.pipeline)) or world.open_coordinator()
        try:
            run_all_steps(world, coordinator, request, tries=3)
        finally:
            if not isinstance(sys.exception(), Crash):
                _LIVING[world] = {id(world.pipeline): coordinator}

    for _ in range(world.random.randint(1, 3)):
        process = world.spawn(f"{request.request_id}:run", run)
        while not process.ended and not abandons(world, process):
            yield
        if process.ended and process.error is None and not process.crashed:
            return
        yield from wait_while_held(world, process)
