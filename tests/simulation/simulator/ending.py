"""The end of a simulated run: the rest of the input is read in peace,
and everything is compared with a plain execution.

What readers see and the state are exactly that; on storage and in staging is what retained checkpoints refer to,
and nothing else.
"""

from typing import TYPE_CHECKING

from simulator.drivers import STEPS, take_step
from simulator.requests import Request, trigger
from simulator.scheduler import Violation, require
from simulator.stops import has_finished, is_at_its_end
from tidegate.pipeline.config import CheckpointRetention
from tidegate.protocol.errors import PipelineFailedError, PipelineStatusError
from tidegate.protocol.lifecycle import COMMITTED, Status
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.records import CheckpointKind, CheckpointRecord, SubtaskId
from tidegate.protocol.trigger import Dropped, Queued

if TYPE_CHECKING:
    from simulator.world import World

MOST_CHECKPOINTS = 100  # that the rest of the input may take


def finish(world: "World") -> None:
    """Nothing goes wrong any more. Raises `Violation`."""
    _go_on(world)
    while world.arrive():
        pass
    for number in range(MOST_CHECKPOINTS):
        if _all_is_read(world) or has_finished(world.store.state):
            break
        _take_checkpoint(world, f"last-{number}")
    _take_checkpoint(world, "empty")
    _check_end(world)
    _clean(world)
    _compare_output(world)
    _compare_state(world, _retained(world))
    _compare_files(world)
    _cancel(world)


def _go_on(world: "World") -> None:
    """Whatever was told the pipeline, it runs again unless it is at its end. Nobody finishes what was to stop it."""
    if (known := world.store.state.pipeline) is not None and known.status is PipelineStatus.STOPPING:
        world.open_coordinator().suspend()
    try:
        world.open_coordinator().resume()
    except PipelineStatusError:
        require(is_at_its_end(world.store.state), "a pipeline that is not at its end cannot be resumed")


def _check_end(world: "World") -> None:
    """All is read, unless the pipeline was drained; it has finished if, and only if, nothing can follow."""
    state = world.store.state
    drained = any(record.drain and record.status in COMMITTED for record in state.checkpoints.values())
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


def _retained(world: "World") -> list[CheckpointRecord]:
    return [record for record in world.store.state.checkpoints.values() if record.status is Status.COMPLETED]


def _clean(world: "World") -> None:
    """Long after, when nobody who was abandoned can write any more."""
    world.clock.advance(2 * 3600)
    for _ in range(2):
        world.open_coordinator().clean()


def _take_checkpoint(world: "World", request_id: str) -> None:
    coordinator = world.open_coordinator()
    for _ in range(10):
        try:
            outcome = trigger(world, coordinator, Request(request_id))
        except PipelineFailedError:  # what was left lying expired, and that was one failure too many
            coordinator.resume()
            continue
        if not isinstance(outcome, Dropped | Queued):
            for step in STEPS:
                take_step(world, coordinator, step, outcome.checkpoint_id)
            return
        if has_finished(world.store.state):
            return
        world.clock.advance(700)
    raise Violation(f"nothing is wrong any more, but {request_id} is dropped for ever: {outcome.message}")


def _all_is_read(world: "World") -> bool:
    return all(
        len(world.observer.read.get(SubtaskId(name, split), ())) == len(pieces)
        for name, source in world.sources.items()
        for split, pieces in enumerate(source.pieces)
    )


def _compare_output(world: "World") -> None:
    for name, sink in world.sinks.items():
        expected = world.observer.sequential.outputs[name]
        require(sink.rows() == expected, f"{name} shows {sink.rows()}, but a plain execution gives {expected}")


def _compare_state(world: "World", retained: list[CheckpointRecord]) -> None:
    """Every retained checkpoint can be read, and the newest is that of the plain execution."""
    for record in retained:
        subtasks = world.store.state.subtasks[record.checkpoint_id]
        snapshots = {subtask: known.snapshot for subtask, known in subtasks.items()}
        for vertex in world.graph.keyed:
            state = world.observer.state_of(vertex.operator_id, snapshots)
            same = state == world.observer.sequential.states[vertex.name]
            require(same or record is not retained[-1], f"the state of {vertex.name} is not that of a plain execution")


def _compare_files(world: "World") -> None:
    needed = {("storage", path) for path in world.store.state.compactions}
    for record in _retained(world):
        needed |= world.observer.references(record)
    there = {("storage", path) for path in world.storage.files}
    there |= {(f"sink:{name}-sink", path) for name, sink in world.sinks.items() for path in sink.staged}
    require(there <= needed, f"files that nothing refers to are left: {sorted(there - needed)[:5]}")
