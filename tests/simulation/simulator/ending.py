"""The end of a simulated run: the rest of the input is read in peace,
and everything is compared with a plain execution.

What readers see and the state are exactly that; on storage and in staging is what retained checkpoints refer to,
and nothing else.
"""

from typing import TYPE_CHECKING

from user_actions import resume, suspend

from simulator.cleaning import check_report
from simulator.forks import fork_in_peace
from simulator.in_the_commit import CommittedSink
from simulator.live_files import references
from simulator.moving import move
from simulator.peace import take_checkpoint
from simulator.replacing import check_corrected, settle
from simulator.requests import Request, trigger
from simulator.restores import check_the_end, restore
from simulator.savepoints import check_directories
from simulator.scheduler import require
from simulator.stops import has_finished, is_at_its_end
from simulator.strangers import keep_strangers_out
from simulator.topic_changes import skip_in_peace
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.pipeline.config import CheckpointRetention
from tidegate.protocol.facts.errors import PipelineStatusError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, SubtaskId
from tidegate.protocol.steps.trigger import Dropped

if TYPE_CHECKING:
    from simulator.world import World

MOST_CHECKPOINTS = 100  # that the rest of the input may take


def finish(world: "World") -> None:
    """Nothing goes wrong any more. Raises `Violation`."""
    _go_on(world)
    while world.arrive():
        pass
    _run_to_the_end(world, "last")
    _compare(world)
    keep_strangers_out(world)
    _finish_forks(world)
    _cancel(world)
    if kept := _retained(world):
        _come_back(world, world.random.choice(kept))
    for forked in world.forks:
        _compare(forked)
    if world.drawn.saving and move(world):
        _run_to_the_end(world, "moved")
        _compare(world)
        _finish_forks(world)


def _finish_forks(world: "World") -> None:
    """What was forked goes on from there to the end of the same input, or is cancelled; the original is as it was. Of
    forks that came to nothing, nothing is left."""
    if not world.drawn.forking:
        return
    world.clock.advance(3600)  # who runs continuously is dead by now
    for forked in fork_in_peace(world):
        if forked.store.state.checkpoints:
            _go_on(forked)
            _run_to_the_end(forked, "last")
        else:
            _clean(forked)
        _compare(forked)
        if world.forking.random() < 0.3:
            _cancel(forked)
    _compare(world)


def _run_to_the_end(world: "World", name: str) -> None:
    """All that is left is read. A last checkpoint may be empty."""
    for number in range(MOST_CHECKPOINTS):
        settle(world)
        skip_in_peace(world)
        if _all_is_read(world) or has_finished(world.store.state):
            break
        take_checkpoint(world, Request(f"{name}-{number}"))
    take_checkpoint(world, Request(f"{name}-empty"))
    _check_end(world)
    check_corrected(world)
    _clean(world)


def _compare(world: "World") -> None:
    _compare_output(world)
    _compare_state(world, _retained(world))
    _compare_files(world)


def _go_on(world: "World") -> None:
    """Whatever was told the pipeline, it runs again unless it is at its end. Nobody finishes what was to stop it."""
    if (known := world.store.state.pipeline) is not None and known.status is PipelineStatus.STOPPING:
        suspend(world.open_coordinator())
    try:
        resume(world.open_coordinator())
    except PipelineStatusError:
        at_its_end = is_at_its_end(world.observer.history, world.store.state)
        require(at_its_end, "a pipeline that is not at its end cannot be resumed")


def _check_end(world: "World") -> None:
    """All is read, unless the pipeline was drained; it has finished if, and only if, nothing can follow."""
    state, history = world.store.state, world.observer.history
    drained = any(record.drain for record in (*history.records_in(state), *history.lost.values()))
    require(drained or _all_is_read(world), "the input is never read to its end")
    bounded = all(source.bounded for source in world.sources.values())
    ended = has_finished(state)
    require(ended == (drained or bounded), f"the pipeline has {'' if ended else 'not '}finished")


def _cancel(world: "World") -> None:
    """The pipeline is cancelled: what readers see stays, and of the state only what belongs to the user."""
    before = _retained(world)
    world.open_coordinator().cancel()
    _clean(world)
    keep = world.pipeline.checkpoints.retention is CheckpointRetention.RETAIN_ON_CANCELLATION
    expected = [r.checkpoint_id for r in before if keep or r.kind is not CheckpointKind.CHECKPOINT]
    kept = [record.checkpoint_id for record in _retained(world)]
    require(kept == expected, f"after the pipeline was cancelled, checkpoints {kept} are kept instead of {expected}")
    _compare_output(world)
    _compare_files(world)
    outcome = trigger(world, world.open_coordinator(), Request("too late"))
    require(isinstance(outcome, Dropped), f"a cancelled pipeline answers {outcome}")


def _come_back(world: "World", record: CheckpointRecord) -> None:
    """A restore leads out of the end, and what was read since is read once more."""
    restore(world, ToCheckpoint(record.checkpoint_id))
    _run_to_the_end(world, "again")
    _compare(world)


def _retained(world: "World") -> list[CheckpointRecord]:
    return [record for record in world.store.state.checkpoints.values() if record.status is Status.COMPLETED]


def _clean(world: "World") -> None:
    """Long after, when nobody who was abandoned can write any more, and no restore can be undone."""
    world.clock.advance(2 * 3600 + world.pipeline.checkpoints.undo_within.total_seconds())
    for _ in range(2):
        coordinator = world.open_coordinator()
        if world.drawn.cleaning or world.clocks.move or world.observer.history.lost:
            coordinator.cleaning.clean()
            if not world.foreign:
                check_report(world, coordinator.cleaning.plan())
        else:
            coordinator.clean()


def _all_is_read(world: "World") -> bool:
    return all(
        source.has_all(split, world.observer.history.now.read.get(SubtaskId(name, split), {}))
        for name, source in world.sources.items()
        for split in range(source.num_splits())
    )


def _compare_output(world: "World") -> None:
    for name, sink in world.sinks.items():
        expected = world.comparison.sequential.outputs[name]
        require(sink.is_right(expected), f"{name} shows {sink.rows()}, but a plain execution gives {expected}")


def _compare_state(world: "World", retained: list[CheckpointRecord]) -> None:
    """Every retained checkpoint can be read, and is what the plain execution had come to, on whatever branch."""
    for record in retained:
        subtasks = world.store.state.subtasks[record.checkpoint_id]
        snapshots = {subtask: known.snapshot for subtask, known in subtasks.items()}
        for vertex in world.graph.keyed:
            states = world.observer.history.moments[record.checkpoint_id].states
            same = world.comparison.state_of(vertex.operator_id, snapshots, states) == states[vertex.name]
            require(same, f"the state of {vertex.name} in {record.checkpoint_id} is not that of a plain execution")


def _is_late_marker(world: "World", path: str) -> bool:
    """Of a savepoint that was given up while a process that had restored to it was about to mark it. Its directory is
    looked through no more, except by `tidegate clean`."""
    marked = {marker_path(world.pipeline_id, to.checkpoint_id) for to in world.observer.history.returns}
    return path in marked


def _compare_files(world: "World") -> None:
    needed = {("storage", path) for path in world.store.state.compactions}
    for record in _retained(world):
        needed |= references(world, record)
    for name, sink in world.sinks.items():
        if isinstance(sink, CommittedSink):
            needed |= {(f"sink:{name}-sink", path) for path in sink.referenced(list(sink.staged))}
    there = {("storage", path) for path in world.storage.files if path.startswith(f"{world.pipeline_id}/")}
    there |= {(f"sink:{name}-sink", path) for name, sink in world.sinks.items() for path in sink.staged}
    left = {(owner, path) for owner, path in there - needed if path not in world.foreign}
    if left and all(_is_late_marker(world, path) for _, path in left):
        world.open_coordinator().cleaning.clean()
        left = {(owner, path) for owner, path in left if path in world.storage.files}
    require(not left, f"files that nothing refers to are left: {sorted(left)[:5]}")
    mine = {path for path in world.foreign if path.startswith(f"{world.pipeline_id}/")}
    taken = mine - world.storage.files.keys()
    require(not taken, f"files of which this database knows nothing were deleted: {sorted(taken)[:5]}")
    check_the_end(world)
    check_directories(world)
