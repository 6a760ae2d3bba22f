"""People who take the pipeline back to an earlier checkpoint or undo that, and whether it then is where they wanted it.

Decided by what they asked for, what is recorded and the history that the observer keeps.
"""

from typing import TYPE_CHECKING

from simulator.history import Return, is_rewinding
from simulator.replacing import BeforeRead, check_way_back
from simulator.savepoints import FromDirectory, check_claim
from simulator.scheduler import Violation, require
from simulator.topic_sources import loses_records
from simulator.upserting import left_as_they_are
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import Target, ToCheckpoint, Undo
from tidegate.protocol.facts.errors import (
    CheckpointNotRetainedError,
    NothingToUndoError,
    RestoreRefusedError,
    StateIntegrityError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, HandleKind
from tidegate.protocol.recovery.restore_plan import Accepted

if TYPE_CHECKING:
    from memory_state import PipelineState

    from simulator.world import World


def draw_target(world: "World") -> Target | None:
    """Mostly another checkpoint that can be restored. None: there is hardly a reason to go anywhere."""
    state, history, random = world.store.state, world.observer.history, world.random
    kept = [id_ for id_, record in state.checkpoints.items() if record.status is Status.COMPLETED]
    others = [id_ for id_ in kept if id_ != history.now.checkpoint_id]
    undoable = history.undoable(len(state.restores)) is not None
    if not (others or undoable) and (not state.checkpoints or random.random() < 0.9):
        return None
    if random.random() < (0.4 if undoable else 0.05):
        return Undo()
    if kept and random.random() < 0.1:
        return ToCheckpoint(None)
    likely = others and random.random() < 0.95
    return ToCheckpoint(random.choice(others if likely else list(state.checkpoints)))


def restore(world: "World", target: Target) -> None:
    """`tidegate restore`, by somebody who first looks at the plan or does not."""
    coordinator = world.open_coordinator()
    world.observer.wanted[world.scheduler.current] = target
    try:
        planned = coordinator.plan_restore(target) if world.random.random() < 0.5 else None
        if planned is not None:
            world.point("has read the plan")
        without = world.corrections.drawn or loses_records(world)
        accepted = Accepted(skip_missing_files=without, leave=left_as_they_are(world))
        plan = coordinator.restore(target, accepted, planned)
    except StateIntegrityError as error:
        raise Violation(f"{target} calls damage what another process did: {error}") from error
    except (CheckpointNotRetainedError, NothingToUndoError, RestoreRefusedError) as error:
        _check_refusal(world, target, error)
        raise
    done = world.observer.returned[world.scheduler.current]
    ends = (plan.checkpoint.checkpoint_id, plan.previous and plan.previous.checkpoint_id)
    as_said = ends == (done.checkpoint_id, done.left) and done.left_behind <= set(plan.left_behind)
    require(as_said, f"the plan {ends}, {plan.left_behind} was carried out as {done}")


def _check_refusal(world: "World", target: Target, error: Exception) -> None:
    """Nobody had a turn since the transaction that refused it."""
    history, now = world.observer.history, world.store.state
    undone = history.undoable(len(now.restores)) if isinstance(target, Undo) else None
    match error:
        case NothingToUndoError():
            require(undone is None, f"{undone} can be undone, but: {error}")
        case CheckpointNotRetainedError():
            wanted = undone.left if undone is not None else getattr(target, "checkpoint_id", None)
            kept = wanted is not None and now.checkpoints[wanted].status is Status.COMPLETED
            require(not kept, f"checkpoint {wanted} is kept, but: {error}")
        case _:
            require("has changed to" in str(error), f"a restore is refused without need: {error}")


def notify(world: "World", coordinator: CheckpointCoordinator, checkpoint_id: int) -> object:
    """The notify step: of a checkpoint that was left behind nothing can be delivered."""
    history = world.observer.history
    was_left, restores = checkpoint_id in history.left_by, len(history.returns)
    delivered = coordinator.notify(checkpoint_id)
    if was_left and restores == len(history.returns):
        known = world.store.state.checkpoints[checkpoint_id].abandoned_by
        require(known is None, f"checkpoint {checkpoint_id} was left behind, but delivers {delivered}")
    return delivered


# -- what must hold after a commit


def check_restores(world: "World", before: "PipelineState", after: "PipelineState") -> None:
    """Raises `Violation`. Takes the observer's history back."""
    for number in range(len(world.observer.history.returns), len(after.restores)):
        _restored(world, before, after, number)
    left = world.observer.history.left_by
    for id_, record in after.checkpoints.items():
        if record.status is Status.COMPLETED:
            counts = record.abandoned_by is None
            require(counts != (id_ in left), f"checkpoint {id_} {'counts' if counts else 'does not count'} any more")
    if after.restores and is_rewinding(before) and not is_rewinding(after):
        process = world.scheduler.current
        mine = world.observer.attempts.get(process) == before.committer.attempt
        require(mine, "a process that was overtaken records that the sinks were rewound")
        for sink in world.sinks.values():
            sink.check()


def _restored(world: "World", before: "PipelineState", after: "PipelineState", number: int) -> None:
    history, restore = world.observer.history, after.restores[number]
    target = world.observer.wanted.get(world.scheduler.current)
    latest, undone = history.latest_in(before), history.undoable(number) if isinstance(target, Undo) else None
    left = None if latest is None else latest.checkpoint_id
    match target:
        case Undo():
            wanted = None if undone is None else undone.left
            undoes = None if undone is None else undone.number
        case ToCheckpoint():
            wanted, undoes = target.checkpoint_id or left, None
        case FromDirectory():
            wanted, undoes = world.storage.elsewhere(target.url).savepoint, None
        case _:
            raise Violation(f"nobody has asked for {restore}")
    found = (restore.number, restore.checkpoint_id, restore.undoes, restore.previous_checkpoint_id)
    expected = (number + 1, wanted, undoes, left)
    require(found == expected, f"{target} when {left} was the latest is recorded as {restore}")
    if isinstance(target, FromDirectory):
        check_claim(world, target, restore, before)
    else:
        kept = before.checkpoints[restore.checkpoint_id].status is Status.COMPLETED
        require(kept and restore.imported is None, f"{restore} goes to what is gone")
    if isinstance(target, BeforeRead):
        check_way_back(world, before, restore, target)
    going = [id_ for id_, record in after.checkpoints.items() if record.status is Status.IN_PROGRESS]
    require(not going, f"checkpoints {going} go on although the pipeline was restored")
    waiting = [request.request_id for request in after.requests.values() if request.dropped is None]
    require(not waiting, f"{waiting} wait although the pipeline was restored")
    assert after.pipeline is not None
    was, now = PipelineStatus.CREATED if before.pipeline is None else before.pipeline.status, after.pipeline.status
    stays = was is PipelineStatus.SUSPENDED
    expected_status = PipelineStatus.SUSPENDED if stays else PipelineStatus.RUNNING
    require(now is expected_status, f"a pipeline that was {was} is {now} after a restore")
    off = history.branch_in(before) - history.moments[restore.checkpoint_id].branch
    known = [before.checkpoints[id_] for id_ in off if id_ in before.checkpoints]
    left_behind = {record.checkpoint_id for record in known if record.status is Status.COMPLETED}
    newest = max(before.checkpoints) if restore.imported is None else restore.imported - 1
    at, imported = restore.restored_at, restore.imported
    done = Return(number + 1, restore.checkpoint_id, newest, left, undoes, at, frozenset(left_behind), imported)
    world.observer.returned[world.scheduler.current] = done
    history.go_back(done)
    _check_compactions(after, restore.goes_on_from)


def _check_compactions(state: "PipelineState", checkpoint_id: int) -> None:
    """Merged runs are kept only if they can take the place of runs that are there."""
    for path, run in state.compactions.items():
        known = state.subtasks[checkpoint_id].get(run.subtask)
        views = [] if known is None else [h.view for h in known.snapshot.handles if h.kind is HandleKind.RUN]
        count = len(run.replaces)
        fits = any(tuple(views[at : at + count]) == tuple(run.replaces) for at in range(len(views)))
        require(fits, f"{path} is kept, which does not fit the restored checkpoint {checkpoint_id}")


def check_subsumed(world: "World", id_: int) -> None:
    """A checkpoint that was left behind goes when it is too late for an undo, and not before."""
    process, left = world.scheduler.current, world.observer.history.left_by[id_]
    now = world.clock.time if process is None else max(process.reads, default=process.read_clock_at)
    over = left.at + world.pipeline.checkpoints.undo_within
    require(now > over, f"checkpoint {id_} is deleted at {now} although its restore can be undone until {over}")


def check_the_end(world: "World") -> None:
    """Long after, nothing is kept of what was left behind but what a person's savepoint rests on."""
    state, history = world.store.state, world.observer.history
    kept = {id_ for id_, record in state.checkpoints.items() if record.status is Status.COMPLETED}
    late = [id_ for id_ in kept & history.left_by.keys() if state.checkpoints[id_].kind is CheckpointKind.CHECKPOINT]
    require(not late, f"checkpoints {late} were left behind long ago, and are still kept")
    needed = frozenset().union(*(history.moments[id_].branch for id_ in kept))
    for name, sink in world.sinks.items():
        unneeded = sorted(set(sink.put_away()) - needed)
        require(not unneeded, f"{name} still keeps rows of checkpoints {unneeded}, to which nobody can go back")
        sink.check()
