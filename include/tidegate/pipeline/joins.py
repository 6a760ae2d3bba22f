"""Declared joins: the rows kept of both sides, and the rows emitted. Without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.ports.versioned_sources import VALID_FROM
from tidegate.protocol.facts.errors import PipelineDefinitionError

HOW = ("inner", "left")
#: A value of `as_of`: the latest version read so far.
CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Join:
    """A join. `keep` names a column of the right side: each key keeps the row with its largest value. If None, all rows
    of both sides are kept. With `versioned`, the rows of the right side are versions, which replace one another.

    With `as_of`, each row of the left side is emitted once, with the version of its `CHECKPOINT` or of the time in this
    column. With a `row_key`, which identifies rows of the left side, they are emitted again when the row of the right
    side changes.
    """

    how: str
    keep: str | None
    versioned: bool = False
    as_of: str | None = None
    row_key: tuple[str, ...] = ()

    @property
    def by(self) -> str | None:
        """The column of the right side whose largest value selects the row."""
        return VALID_FROM if self.versioned else self.keep

    def __str__(self) -> str:
        """Return the text by which a changed declaration is noticed. The first release had only the first two
        fields."""
        later = (("versioned", self.versioned), ("as_of", self.as_of), ("row_key", self.row_key))
        others = "".join(f", {name}={value!r}" for name, value in later if value)
        return f"Join(how={self.how!r}, keep={self.keep!r}{others})"


def check_join(where: str, join: Join, key: Sequence[str]) -> None:
    """Raise `PipelineDefinitionError` if a join cannot be declared so."""
    if join.how not in HOW:
        raise PipelineDefinitionError(
            f"The join of {where} is how={join.how!r}. It must be one of {', '.join(map(repr, HOW))}. Swap the two "
            "streams for a right join."
        )
    if join.versioned:
        _check_versioned(where, join)
    elif join.as_of is not None:
        raise PipelineDefinitionError(
            f"The {where} has as_of={join.as_of!r}, but its right side is not a source of versions, such as "
            "FileSource(…, mode=\"snapshot\"). Select the row of the right side with keep='column'."
        )
    elif join.row_key and join.keep is None:
        raise PipelineDefinitionError(
            f"The {where} has a row_key, so that each row of the left side appears once, but may match many rows of "
            "the right side. Select one with keep='column': the row with the largest value in that column."
        )
    elif join.how == "left" and join.keep is None:
        raise PipelineDefinitionError(
            f"The {where} is a left join that keeps all rows. A row without a match would be emitted at once, and "
            "could not be taken back when a match arrives. Select one row of the right side with keep='column', the "
            "one with the largest value in that column, or make it an inner join."
        )
    if join.keep in key:
        raise PipelineDefinitionError(
            f"The {where} keeps the row with the largest {join.keep!r}, which is a column of the key. Name another "
            "one, such as the time of the change."
        )


def _check_versioned(where: str, join: Join) -> None:
    if join.keep is not None:
        raise PipelineDefinitionError(
            f"The {where} has keep={join.keep!r}, but the rows of its right side are versions, of which the latest "
            "counts. Leave keep out."
        )
    if (join.as_of is None) == (not join.row_key):
        both = "both" if join.row_key else "neither"
        raise PipelineDefinitionError(
            f"The {where} joins rows that replace one another, and has {both} of as_of and row_key. Use as_of="
            "'checkpoint' or as_of='column' to emit each row of the left side once, with the version that counts "
            "then; or row_key=['column'] to update it when the version changes."
        )


def check_version_key(where: str, key: Sequence[str], version_key: Sequence[str]) -> None:
    """Raise `PipelineDefinitionError` unless a join finds at most one row of its right side."""
    if set(key) != set(version_key):
        raise PipelineDefinitionError(
            f"The {where} joins by {', '.join(key)}, but the rows of its right side have the key "
            f"{', '.join(version_key)}, so several could match one row. Join by that key."
        )
