"""The reasons why a definition cannot go on from a checkpoint. A plan and a run report them in the same words."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.protocol.facts.errors import StateSchemaError


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason for a refusal. `why` and `way_out` are whole sentences."""

    operator_id: str
    why: str
    way_out: str


def require_none(refusals: Sequence[Refusal]) -> None:
    """Raise `StateSchemaError` with all refusals, if there are any. Performs no I/O."""
    if refusals:
        why = " ".join(dict.fromkeys(refusal.why for refusal in refusals))
        ways = " ".join(dict.fromkeys(refusal.way_out for refusal in refusals))
        raise StateSchemaError(f"{why} Nothing was changed. {ways}")


def unfit_state(pipeline_id: str, operator_id: str, problems: Sequence[str]) -> Refusal:
    """Refuse an operator whose state has columns that do not fit its definition (see
    `state_schema.SchemaChange.problems`)."""
    return Refusal(
        operator_id,
        f"The state of operator {operator_id} of pipeline {pipeline_id} does not fit its definition: "
        f"{'; '.join(problems)}.",
        "Put the definition back, or give the operator a new name to start with empty state.",
    )
