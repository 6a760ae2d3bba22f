"""What becomes of a declared join's state when the join is declared in another way."""

import pytest

from tidegate.protocol.schema.state_schema import StateColumn, StateSchema, compare_schemas

KEPT = ("left_rows", "right_rows")


def state(*names: str) -> StateSchema:
    columns = tuple(StateColumn(name, "string", name) for name in names)
    return StateSchema((StateColumn("customer", "string", "customer"),), columns)


@pytest.mark.parametrize(
    ("before", "now", "is_refused"),
    [
        (("right_versions",), ("right_versions",), False),
        (KEPT, KEPT, False),
        (KEPT, ("right_versions",), True),
        (KEPT, (*KEPT, "result_updates"), True),
        (("left_rows", "right_versions", "result_updates"), ("right_versions",), True),
    ],
)
def test_a_join_that_keeps_something_else_is_refused(
    before: tuple[str, ...], now: tuple[str, ...], is_refused: bool
) -> None:
    change = compare_schemas(state(*before), state(*now), {})
    assert bool(change.problems) is is_refused
    assert not is_refused or change.problems[0].startswith("it was another kind of join: the state of both sides")
