"""Recording of user actions."""

from typing import Any

import pytest
from cases import for_each
from records import SOMEBODY

from tidegate.protocol.facts.errors import IllegalRequestError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.actions import (
    ActionAnswer,
    ActionKind,
    Actor,
    ActorKind,
    AnswerStatus,
    UserAction,
    kind_of_request,
    recordable,
    recordable_answer,
    require_same_action,
)


@for_each(
    ("kind", "drain", "expected"),
    [
        (CheckpointKind.CHECKPOINT, False, ActionKind.CHECKPOINT),
        (CheckpointKind.SAVEPOINT, False, ActionKind.SAVEPOINT),
        (CheckpointKind.SYNC_SAVEPOINT, False, ActionKind.STOP),
        (CheckpointKind.SYNC_SAVEPOINT, True, ActionKind.DRAIN),
    ],
)
def test_a_request_is_what_it_does(kind: CheckpointKind, drain: bool, expected: ActionKind) -> None:
    assert kind_of_request(kind, drain) is expected


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@for_each("details", [{"x": "y" * 10**7}, {"x": ["y"] * 10**5}, {"x" * 10**6: 1}, {"x": deep(10**5)}])
def test_what_is_recorded_is_bounded(details: dict[str, Any]) -> None:
    actor = Actor(ActorKind.DAG_RUN, "n" * 10**6, "o" * 10**6)
    known = recordable(UserAction("id", ActionKind.CHECKPOINT, actor, details))
    assert len(repr(known)) < 22_000
    assert known == recordable(known)


def test_what_is_small_is_recorded_whole() -> None:
    details = {"checkpoint": 5, "leave": ["a", "b"], "note": "ä", "deep": {"n": None}}
    action = UserAction("id", ActionKind.RESTORE, SOMEBODY, details)
    assert recordable(action) == action
    answer = ActionAnswer(AnswerStatus.DONE, "It is done.", 5)
    assert recordable_answer(answer) == answer


def test_an_id_is_of_one_kind_and_one_set_of_details() -> None:
    known = UserAction("id", ActionKind.ABORT, SOMEBODY, {"checkpoint": 5})
    require_same_action(
        known, UserAction("id", ActionKind.ABORT, Actor(ActorKind.DAG_RUN, "x", "y"), {"checkpoint": 5})
    )
    for other in (UserAction("id", ActionKind.ABORT, SOMEBODY), UserAction("id", ActionKind.SUSPEND, SOMEBODY)):
        with pytest.raises(IllegalRequestError, match=r"is of another request: ABORT .*by amy"):
            require_same_action(known, other)
