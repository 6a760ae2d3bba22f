"""What happens while nothing goes wrong and nobody else is about."""

from typing import TYPE_CHECKING

from user_actions import resume

from simulator.drivers import STEPS, take_step
from simulator.requests import Request, trigger
from simulator.savepoints import export
from simulator.scheduler import Violation
from simulator.stops import has_finished
from tidegate.protocol.facts.errors import PipelineFailedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.steps.trigger import Dropped, Queued

if TYPE_CHECKING:
    from simulator.world import World


def live_a_while(world: "World") -> None:
    """Some checkpoints, so that there is something to go back to when trouble begins."""
    for number in range(world.random.randint(2, 6)):
        for _ in range(world.random.randint(0, 3)):
            world.arrive()
        share = 0.5 if world.drawn.saving or world.drawn.forking else 0.2
        kind = CheckpointKind.SAVEPOINT if world.random.random() < share else CheckpointKind.CHECKPOINT
        request = world.requests.setdefault(f"early-{number}", Request(f"early-{number}", kind=kind))
        take_checkpoint(world, request)
        world.clock.advance(world.random.choice([1, 60, 700]))
    for id_, record in world.store.state.checkpoints.items():
        if record.kind is CheckpointKind.SAVEPOINT and record.status is Status.COMPLETED:
            if world.drawn.forking and world.forking.random() < 0.5:
                world.open_coordinator().savepoints.relabel(str(id_), Label(f"kept {id_}"))
            if world.drawn.saving or (world.drawn.forking and world.forking.random() < 0.5):
                export(world, id_)


def take_checkpoint(world: "World", request: Request) -> None:
    """Every step of it, one after the other, unless the pipeline has come to its end."""
    coordinator = world.open_coordinator()
    for _ in range(10):
        try:
            outcome = trigger(world, coordinator, request)
        except PipelineFailedError:  # what was left lying expired, and that was one failure too many
            resume(coordinator)
            continue
        if not isinstance(outcome, Dropped | Queued):
            for step in STEPS:
                take_step(world, coordinator, step, outcome.checkpoint_id)
            return
        if has_finished(world.store.state):
            return
        world.clock.advance(700)
    raise Violation(f"nothing is wrong any more, but {request.request_id} is dropped for ever: {outcome.message}")
