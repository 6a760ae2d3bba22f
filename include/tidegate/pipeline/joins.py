"""A declared join: what is kept of both sides, and what is emitted when. Without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.protocol.facts.errors import PipelineDefinitionError

HOW = ("inner", "left")


@dataclass(frozen=True, slots=True)
class Join:
    """`keep` names a column of the right side, of whose rows each key keeps the one with its largest value; None if all
    rows of both sides are kept."""

    how: str
    keep: str | None


def check_join(where: str, join: Join, key: Sequence[str]) -> None:
    """Raises `PipelineDefinitionError` for what cannot be declared."""
    if join.how not in HOW:
        raise PipelineDefinitionError(
            f"The join of {where} is how={join.how!r}. It is one of {', '.join(map(repr, HOW))}; swap the two streams "
            "for a right join."
        )
    if join.how == "left" and join.keep is None:
        raise PipelineDefinitionError(
            f"The {where} is a left join that keeps all rows. A row that has met none yet would leave without, and "
            "could not be taken back when one comes. Say with keep='column' which row of the right side counts, that "
            "with the largest value there, or make it an inner join."
        )
    if join.keep in key:
        raise PipelineDefinitionError(
            f"The {where} keeps the row with the largest {join.keep!r}, which is a column of the key. Name another "
            "one, such as the time of the change."
        )
