"""A notifier that keeps what it hears, and a pipeline that has something to tell it."""

from dataclasses import dataclass, field

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import ALERTS, EventKind


@dataclass
class Ear:
    """A notifier. `answers` are what it does, in turn: True, False, or an error to raise; then it takes everything."""

    name: str = "ear"
    kinds: frozenset[EventKind] = ALERTS
    answers: list[object] = field(default_factory=list)
    heard: list = field(default_factory=list)

    def notify(self, event):
        self.heard.append(event)
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, BaseException):
            raise answer
        return answer

    @property
    def said(self):
        return [(event.kind.name, event.checkpoint_id) for event in self.heard]


def told(world, *ears, store=None):
    """Another process of the pipeline, that tells these."""
    world.coordinator = CheckpointCoordinator(
        world.pipeline, store or world.store, world.storage, world.clock, notifiers=ears
    )
    return world.coordinator


def fail(world, request="x"):
    """One checkpoint, for a cause of its own."""
    checkpoint_id = world.ask(request).checkpoint_id
    world.coordinator.abort(checkpoint_id, FailureReason.TASK_FAILURE, f"the cause of {request}")
    return checkpoint_id
