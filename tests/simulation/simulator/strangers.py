"""Another pipeline whose sinks write where the simulated one's do: it is kept out, and deletes nothing there.

It may have begun while the marks were gone, and so have checkpoints of its own whose files it would look for. What it
does is no step of anybody, so that everything else goes as it did.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from memory_store import MemoryCheckpointStore
from worlds import MemoryStorage

from simulator.graphs import rebuilt
from simulator.scheduler import Violation, require
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.errors import PipelineIdentityError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.steps.trigger import Triggered

if TYPE_CHECKING:
    from simulator.world import World


def keep_strangers_out(world: "World") -> None:
    """While the tables are as they should be. Raises `Violation`."""
    draws = Random(f"{world.seed} stranger")
    if not world.disk.marks:
        return  # no checkpoint has begun
    latest = max((id_ for id_, record in world.store.state.checkpoints.items() if record.notified_at), default=0)
    before = _names(world.disk.root)
    known = _stranger(world, "known", draws)
    _give_it_a_past(world, known, latest, draws)
    _require_refused(known)
    new = _stranger(world, "new", draws)
    _require_refused(new)
    used = any(sink.is_used() for sink in world.sinks.values())
    marks = _without_marks(world)
    if used:  # and the marks are gone
        _require_refused(_stranger(world, "unmarked", draws))
    world.disk.marks.update(marks)
    require(_names(world.disk.root) == before, "a stranger has changed something in the tables")


def _stranger(world: "World", name: str, draws: Random) -> CheckpointCoordinator:
    """In the same database, or another one."""
    pipeline = rebuilt(world.pipeline, name=f"stranger_{name}")
    pipeline.listeners = ()
    store = world.store.database if draws.random() < 0.5 else MemoryCheckpointStore()
    return CheckpointCoordinator(pipeline, store, MemoryStorage("stranger://"), world.clock)


def _without_marks(world: "World") -> dict[str, Any]:
    marks = dict(world.disk.marks)
    world.disk.marks.clear()
    return marks


def _give_it_a_past(world: "World", stranger: CheckpointCoordinator, latest: int, draws: Random) -> None:
    """A checkpoint of the number of one whose files are needed, which is aborted now."""
    marks, store = _without_marks(world), stranger.context.store
    with store.transaction(stranger.pipeline_id) as tx:
        tx.record_endpoints(stranger.graph.endpoints, world.clock.now())
        tx.reserve_numbers(max(0, latest - 1), 0, 0, world.clock.now())
    outcome = stranger.trigger("while the marks were gone")
    require(isinstance(outcome, Triggered), f"a stranger could not begin while the marks were gone: {outcome}")
    world.disk.marks.clear()
    world.disk.marks.update(marks)
    assert isinstance(outcome, Triggered)
    stranger.abort(outcome.checkpoint_id, FailureReason.TASK_FAILURE, "it was found out")
    if draws.random() < 0.5:
        stranger.clean()


def _require_refused(stranger: CheckpointCoordinator) -> None:
    attempts: tuple[Callable[[], Any], ...] = (
        stranger.check,
        lambda: stranger.trigger("a stranger's"),
        stranger.start_region,
        stranger.cleaning.clean,
    )
    for attempt in attempts:
        try:
            attempt()
        except PipelineIdentityError:
            continue
        raise Violation(f"{stranger.pipeline_id} was let into tables that are not its own")


def _names(node: Any, path: str = "") -> frozenset[str]:
    if not isinstance(node, dict):
        return frozenset({path})
    return frozenset({path}).union(*(_names(each, f"{path}/{name}") for name, each in node.items()))
