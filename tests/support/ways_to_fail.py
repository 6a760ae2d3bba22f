"""Completes checkpoints at a desk, and the ways in which checkpoint 2 can fail there."""

from collections.abc import Callable
from typing import Any

import pytest
from desks import Desk
from user_actions import suspend
from worlds import Judge

from tidegate.protocol.facts.errors import CheckpointExpiredError, ValidationFailedError
from tidegate.protocol.facts.reasons import FailureReason


def take(world: Desk, *requests: str) -> None:
    for request in requests:
        outcome: Any = world.ask(request)
        world.complete(outcome.checkpoint_id)


def abort(world: Desk) -> None:
    world.coordinator.abort(2, FailureReason.TASK_FAILURE, "gone")


def expire_while_looking(world: Desk) -> None:
    world.clock.advance(3600)
    with pytest.raises(CheckpointExpiredError):
        world.coordinator.acknowledge(2)


def expire_while_reporting(world: Desk) -> None:
    world.clock.advance(3600)
    world.coordinator.record_acknowledgements(2, [])


def expire_for_the_next(world: Desk) -> None:
    world.clock.advance(3600)
    world.ask("next")


def fail_validation(world: Desk) -> None:
    world.acknowledge(2)
    with pytest.raises(ValidationFailedError):
        world.coordinator.validate(2, Judge(False))


WAYS_TO_FAIL: list[Callable[[Desk], object]] = [
    abort,
    expire_while_looking,
    expire_while_reporting,
    expire_for_the_next,
    fail_validation,
    lambda world: suspend(world.coordinator),
    lambda world: world.coordinator.cancel(),
]
NAMES = ["abort", "expired", "expired at a report", "expired at a request", "validation", "suspend", "cancel"]
