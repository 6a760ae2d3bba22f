"""People who change the code: they look at `tidegate plan`, and run it. What the plan has said is what the run does.

Columns of state are not among the changes: here an operator's state is numbers by key, and has none.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from simulator.graphs import rebuilt
from simulator.requests import Request
from simulator.scheduler import Violation, require
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.inputs import inputs_of
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.protocol.facts.errors import PipelineIdentityError, StateSchemaError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import HandleKind
from tidegate.protocol.recovery.changes import ChangeVerdict
from tidegate.protocol.steps.trigger import Resumed, Triggered

if TYPE_CHECKING:
    from simulator.world import World


class Elsewhere:
    """A source or sink that says that it is in another place."""

    def __init__(self, known: Any) -> None:
        self._known = known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._known, name)

    def describe(self) -> dict[str, Any]:
        return self._known.describe() | {"path": "/elsewhere"}


def _draw(world: "World") -> tuple[str, Pipeline, set[str]]:
    """What is changed, the pipeline as it is then, and what has state that it cannot go on with."""
    pipeline, random = world.pipeline, world.aside
    operator = random.choice([vertex.name for vertex in pipeline.vertices if isinstance(vertex, KeyedVertex)])
    source = random.choice(list(world.sources))
    everything = {vertex.name for vertex in pipeline.vertices}
    match random.choice(["nothing", "parallelism", "max_parallelism", "renamed", "moved"]):
        case "nothing":
            return "nothing changes", rebuilt(pipeline), set()
        case "parallelism":
            return "another parallelism", rebuilt(pipeline, parallelism=random.choice([1, 2, 3, 4])), set()
        case "max_parallelism":
            return (
                "another max_parallelism",
                rebuilt(pipeline, max_parallelism=pipeline.max_parallelism + 1),
                everything,
            )
        case "renamed":
            return f"{operator} is renamed", rebuilt(pipeline, partial(_renamed, operator)), {operator}
        case _:
            return f"{source} is elsewhere", rebuilt(pipeline, partial(_moved, source)), {source}


def _renamed(name: str, vertex: Any) -> Any:
    return replace(vertex, name="new") if vertex.name == name else vertex


def _moved(name: str, vertex: Any) -> Any:
    return replace(vertex, source=Elsewhere(vertex.source)) if vertex.name == name else vertex


def change(world: "World") -> None:
    """Somebody looks at the plan of a change, and deploys it, or tries to."""
    what, pipeline, stuck = _draw(world)
    world.note(f"{what}: what would a run do?")
    coordinator = CheckpointCoordinator(pipeline, world.store, world.storage, world.clock)
    plan = coordinator.planning.plan()
    if plan.record is None:
        verdicts = {vertex.verdict for vertex in plan.vertices}
        return require(verdicts == {ChangeVerdict.NEW}, f"nothing is there, and the plan says {verdicts}")
    is_illegal = bool(stuck & _with_state(world, plan.record.checkpoint_id))
    require(plan.refuses == is_illegal, f"{what}, and the plan says: {plan.summary()} {plan.vertices}")
    world.point("has read the plan")
    if is_illegal:
        _is_refused(world, coordinator, plan.record.checkpoint_id)
    elif not stuck:
        others = [vertex for vertex in plan.vertices if vertex.verdict is not ChangeVerdict.SAME]
        require(not others, f"{what}, and the plan says {others}")
        world.pipeline = pipeline
    return None


def _with_state(world: "World", checkpoint_id: int) -> set[str]:
    """Sources, and operators that have any state in the checkpoint, or have finished with it and are read: what reads
    them has finished, too, and may read nothing new."""
    read = {stream.origin for vertex in world.pipeline.vertices for stream in inputs_of(vertex)}
    return set(world.sources) | {
        subtask.operator_id
        for subtask, known in world.store.state.subtasks[checkpoint_id].items()
        if (known.snapshot.finished and subtask.operator_id in read)
        or any(handle.kind is HandleKind.RUN for handle in known.snapshot.handles)
    }


def _is_refused(world: "World", coordinator: CheckpointCoordinator, base: int) -> None:
    """As the plan has said, in whatever step, unless the pipeline goes on from another checkpoint than `base` now; the
    checkpoint before stays the latest one."""
    request = Request(f"changed-{world.unique()}")
    world.requests[request.request_id] = request
    try:
        outcome = coordinator.trigger(request.request_id)
        if not isinstance(outcome, Triggered | Resumed):
            return
        try:
            coordinator.snapshot(outcome.checkpoint_id, Untouched(world, base))
        except StateSchemaError:
            coordinator.abort(outcome.checkpoint_id, FailureReason.TASK_FAILURE, "the code was changed")
            raise
    except (StateSchemaError, PipelineIdentityError) as error:
        world.note(f"is refused: {error}")


class Untouched:
    """A region of code that cannot go on from a checkpoint: nobody asks it."""

    def __init__(self, world: "World", base: int) -> None:
        self._world, self._base = world, base

    def snapshot(self, task: Any, acknowledge: Any) -> None:
        latest = self._world.observer.history.latest_id(self._world.store.state)
        require(latest != self._base, f"checkpoint {task.checkpoint_id} is taken with code that the plan has refused")
        raise StateSchemaError(f"the pipeline goes on from {latest} meanwhile, and the plan was of {self._base}")

    def compact(self, checkpoint_id: int, snapshots: Any) -> list[Any]:
        raise Violation("a run that was refused merges state")
