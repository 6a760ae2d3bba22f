"""People who take a continuous pipeline back to an earlier checkpoint, or undo that, while its region runs."""

from typing import TYPE_CHECKING

from simulator.scheduler import Violation
from simulator.upserting import left_as_they_are
from tidegate.coordination.recovery.restore import Target, ToCheckpoint, Undo
from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.recovery.restore_plan import Accepted

if TYPE_CHECKING:
    from simulator.running import Running


def draw_target(world: "Running") -> Target | None:
    """Mostly another checkpoint whose state is kept; None if there is no checkpoint."""
    state, random = world.store.state, world.aside
    kept = [id_ for id_, record in state.checkpoints.items() if record.status is Status.COMPLETED]
    others = [id_ for id_ in kept if id_ != world.checks.now]
    if not kept or (not others and random.random() < 0.7):
        return None
    if state.restores and random.random() < 0.3:
        return Undo()
    return ToCheckpoint(random.choice(others) if others and random.random() < 0.9 else None)


def restore(world: "Running", target: Target) -> None:
    """`tidegate restore`."""
    world.tell(f"somebody restores: {target}")
    world.met["restore"] += 1
    world.checks.wanted = target
    try:
        world.coordinator().restore(target, Accepted(leave=left_as_they_are(world)))
    except StateIntegrityError as error:
        raise Violation(f"{target} calls damage what another process did: {error}") from error


def clean(world: "Running") -> None:
    """`tidegate clean`, beside a region that runs: nothing here is damaged."""
    world.tell("somebody runs tidegate clean")
    report = world.coordinator().cleaning.clean()
    if report.damage:
        raise Violation(f"what another process did is called damage: {report.damage_lines()}")
