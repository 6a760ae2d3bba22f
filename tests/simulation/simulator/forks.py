"""People who fork the pipeline, one or two at once, run what was forked, restore it or clean up after it; and the
savepoint that it is forked from is given up meanwhile, or the original restored. Whether a fork that is refused is
refused for a reason, is decided by the files and the history that the observers keep.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simulator.cleaning import clean
from simulator.commands import command_line
from simulator.fork_checks import ForkedFrom
from simulator.forked import Forked
from simulator.graphs import rebuilt
from simulator.requests import Request
from simulator.restores import draw_target, restore
from simulator.savepoints import dispose_of
from simulator.scheduler import Violation, require
from tidegate.coordination.context import PipelineContext
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.coordination.recovery.savepoints import Savepoints
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import (
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    CopyInterruptedError,
    ForkRefusedError,
    StateIntegrityError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.recovery.imports import IMPORT_LEASE
from tidegate.protocol.recovery.restore_plan import Accepted

if TYPE_CHECKING:
    from simulator.world import World

MOST_FORKS = 2


def use_forks(world: "World") -> None:
    """Something happens around forks."""
    random = world.forking
    if not world.forks or (len(world.forks) < MOST_FORKS and random.random() < 0.2):
        world.forks.append(Forked(world))
    forked = random.choice(world.forks)
    name, state = forked.pipeline_id, forked.store.state
    copying = any(ended_at is None for _, ended_at in state.imports.values())
    kinds = ["run", "run", "restore"] if state.checkpoints else ["fork"] * 12 + ["run", "region"]
    match random.choice([*kinds, "fork", "share", "clean", *["clean"] * 8 * copying]):
        case "fork":
            _fork_amid_others(world, forked)
        case "run":
            request = Request(f"{name}-{random.randrange(5)}")
            world.spawn(f"somebody:run of {name}", lambda: command_line(forked, request))
        case "clean":
            world.spawn(f"somebody:tidegate clean {name}", lambda: clean(forked))
        case "restore" if (target := draw_target(forked)) is not None:
            world.spawn(f"somebody:{target} of {name}", lambda: restore(forked, target))
        case "region":
            world.spawn(f"somebody:region of {name}", lambda: _run_on(forked))
        case "share":
            wanted = draw_origin(world)
            world.spawn(f"somebody:{wanted} to the tables of {world.pipeline_id}", lambda: _share(world, wanted))


def _fork_amid_others(world: "World", forked: Forked) -> None:
    """Perhaps two people do, from the same or not, and the original's do something about what it is forked from."""
    random, wanted = world.forking, draw_origin(world)
    world.spawn(f"somebody:{wanted} to {forked.pipeline_id}", lambda: fork(forked, wanted))
    if random.random() < 0.3:
        other = wanted if random.random() < 0.5 else draw_origin(world)
        world.spawn(f"another:{other} to {forked.pipeline_id}", lambda: fork(forked, other))
    id_, state = wanted.checkpoint_id, world.store.state
    if id_ is None or id_ not in state.checkpoints or random.random() < 0.6:
        return
    if state.checkpoints[id_].kind is CheckpointKind.CHECKPOINT or random.random() < 0.5:
        world.spawn(f"somebody:restore to {id_}", lambda: restore(world, ToCheckpoint(id_)))
    else:
        world.spawn(f"somebody:dispose of {id_}", lambda: dispose_of(world, id_))


def draw_origin(world: "World", kept_only: bool = False) -> ForkedFrom:
    """Mostly something that is there."""
    random, checkpoints, history = world.forking, world.store.state.checkpoints, world.observer.history
    kept = [id_ for id_, record in checkpoints.items() if record.status is Status.COMPLETED]
    savepoints = [id_ for id_ in kept if checkpoints[id_].kind is not CheckpointKind.CHECKPOINT]
    there = [each for each in world.storage.others.values() if each.files and (each.is_complete or not kept_only)]
    known = [each for each in there if each.savepoint in (history.lost or history.moments)]  # not of a lost branch
    options = ["--checkpoint"] * bool(kept) + ["--savepoint"] * 2 * bool(savepoints) + ["--from"] * 2 * bool(known)
    match random.choice([*options, "--latest"]):
        case "--checkpoint":
            id_ = random.choice(list(checkpoints) if not kept_only and random.random() < 0.1 else kept)
            return ForkedFrom("--checkpoint", id_, id_)
        case "--savepoint":
            id_ = random.choice(savepoints)
            return ForkedFrom("--savepoint", checkpoints[id_].name or str(id_), id_)
        case "--from":
            directory = random.choice(known)
            return ForkedFrom("--from", directory.url, directory.savepoint)
    return ForkedFrom("--latest")


def fork(forked: Forked, wanted: ForkedFrom) -> None:
    """`tidegate fork`, by somebody who reads the plan."""
    process, since, touched = forked.scheduler.current, forked.clock.time, _changes(forked, wanted)
    forked.observer.wanted[process] = wanted
    coordinator = forked.open_coordinator()
    try:
        planned = coordinator.forking.plan(compile_graph(forked.original.pipeline), _where(forked, wanted))
        forked.point("has read the plan")
        coordinator.fork(planned, Accepted())
    except (CheckpointNotFoundError, CheckpointNotRetainedError) as error:
        require(not _is_there(forked, wanted), f"{wanted} is refused without need: {error}")
        raise
    except (CopyInterruptedError, ForkRefusedError) as error:
        gone = not _is_there(forked, wanted) or touched != _changes(forked, wanted)
        stood_still = forked.clock.time - since > IMPORT_LEASE / 2 or forked.clock.world.clocks.move
        _check_refusal(forked, str(error), gone, stood_still)
        raise
    except StateIntegrityError as error:
        raise Violation(f"{wanted} calls damage what another process did: {error}") from error
    first, name = forked.first, forked.pipeline_id
    right = first is not None and first.request_id == str(planned.plan.fork)
    require(right, f"{wanted} counts as done, but {name} begins with {first}")
    marked = first.status is not Status.COMPLETED or marker_path(name, first.checkpoint_id) in forked.storage.files
    require(marked, f"{wanted} counts as done, but checkpoint {first.checkpoint_id} has no marker")


def _where(forked: Forked, wanted: ForkedFrom) -> ToCheckpoint | str:
    match wanted.option:
        case "--from":
            return str(wanted.value)
        case "--savepoint":
            savepoints = Savepoints(
                PipelineContext(forked.original.pipeline_id, forked.store, forked.storage, forked.clock)
            )
            return ToCheckpoint(savepoints.find(wanted.value).checkpoint_id)
    return ToCheckpoint(wanted.value)


def _is_there(forked: Forked, wanted: ForkedFrom) -> bool:
    """The checkpoint is kept, or the directory is complete."""
    if wanted.option == "--from":
        return forked.original.storage.elsewhere(wanted.value).is_complete
    meant = forked.observer.meant(forked.scheduler.current)
    record = None if meant is None else forked.original.store.state.checkpoints.get(meant)
    return record is not None and record.status is Status.COMPLETED


def _changes(forked: Forked, wanted: ForkedFrom) -> int:
    return forked.original.storage.elsewhere(wanted.value).changes if wanted.option == "--from" else 0


def _check_refusal(forked: Forked, why: str, gone: bool, slow: bool) -> None:
    begun = bool(forked.store.state.checkpoints)
    reasons = {
        "it was forked before, as its checkpoint": forked.first is not None,
        "this database knows checkpoints of it": begun,
        "is not empty. A fork's tables begin empty": begun,
        "it has no marker": gone,
        "its content has changed, or it no longer exists": gone,
        "copying stood still": slow,
    }
    right = any(reason in why and holds for reason, holds in reasons.items())
    require(right, f"a fork is refused without need: {why}")


def _share(world: "World", wanted: ForkedFrom) -> None:
    """By somebody who forgets to give the new pipeline tables of its own."""
    forked = Forked(world)
    forked.observer.wanted[world.scheduler.current] = wanted
    pipeline = rebuilt(world.pipeline, name=forked.pipeline_id)
    forking = CheckpointCoordinator(pipeline, forked.store, forked.storage, world.clock).forking
    try:
        forking.plan(compile_graph(world.pipeline), _where(forked, wanted))
    except StateIntegrityError as error:
        raise Violation(f"{wanted} calls damage what another process did: {error}") from error
    raise Violation(f"{forked.pipeline_id} is to write to the tables of {world.pipeline_id}, and nobody says so")


def _run_on(forked: Forked) -> None:
    """Somebody runs the new pipeline for a while, continuously."""
    coordinator = forked.open_coordinator()
    attempt = coordinator.start_region().attempt
    forked.point("runs as a region")
    coordinator.keep_region(attempt)
    coordinator.end_region(attempt)


def fork_in_peace(world: "World") -> Sequence[Forked]:
    """All that may have been forked; if none was, now one is."""
    begun = [forked for forked in world.forks if forked.store.state.checkpoints]
    wanted = draw_origin(world, kept_only=True)
    if not begun and (wanted.option != "--latest" or world.observer.history.latest_in(world.store.state) is not None):
        world.forks.append(Forked(world))
        fork(world.forks[-1], wanted)
    return world.forks
