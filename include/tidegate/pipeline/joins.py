"""A declared join: what is kept of both sides, and what is emitted when. Without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.ports.versioned_sources import VALID_FROM
from tidegate.protocol.facts.errors import PipelineDefinitionError

HOW = ("inner", "left")
#: Of `as_of`: the version that has been read.
CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Join:
    """`keep` names a column of the right side, of whose rows each key keeps the one with its largest value; None if all
    rows of both sides are kept. With `versioned`, the right side has versions, which replace one another.

    With `as_of`, each row of the left side is emitted once, with the version of its `CHECKPOINT`, or with that of the
    time in this column. With a `row_key`, which tells rows of the left side apart, they are emitted again when the row
    of the right side changes.
    """

    how: str
    keep: str | None
    versioned: bool = False
    as_of: str | None = None
    row_key: tuple[str, ...] = ()

    @property
    def by(self) -> str | None:
        """The column of the right side whose largest value counts."""
        return VALID_FROM if self.versioned else self.keep

    def __str__(self) -> str:
        """As it is compared with what was declared before. The first release had the first two alone."""
        later = (("versioned", self.versioned), ("as_of", self.as_of), ("row_key", self.row_key))
        said = "".join(f", {name}={value!r}" for name, value in later if value)
        return f"Join(how={self.how!r}, keep={self.keep!r}{said})"


def check_join(where: str, join: Join, key: Sequence[str]) -> None:
    """Raises `PipelineDefinitionError` for what cannot be declared."""
    if join.how not in HOW:
        raise PipelineDefinitionError(
            f"The join of {where} is how={join.how!r}. It is one of {', '.join(map(repr, HOW))}; swap the two streams "
            "for a right join."
        )
    if join.versioned:
        _check_versioned(where, join)
    elif join.as_of is not None:
        raise PipelineDefinitionError(
            f"The {where} is as_of={join.as_of!r}, and its right side is no source of versions, such as "
            "FileSource(…, mode=\"snapshot\"). Say with keep='column' which row of the right side counts."
        )
    elif join.row_key and join.keep is None:
        raise PipelineDefinitionError(
            f"The {where} has a row_key, so that each row of the left side is there once, and may have many of the "
            "right side. Say with keep='column' which row of that counts: that with the largest value there."
        )
    elif join.how == "left" and join.keep is None:
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


def _check_versioned(where: str, join: Join) -> None:
    if join.keep is not None:
        raise PipelineDefinitionError(
            f"The {where} has keep={join.keep!r}, and the rows of its right side are versions, of which the latest "
            "counts. Leave keep out."
        )
    if (join.as_of is None) == (not join.row_key):
        both = "both" if join.row_key else "neither"
        raise PipelineDefinitionError(
            f"The {where} joins rows that replace one another, and has {both} of as_of and row_key. Say as_of="
            "'checkpoint' or as_of='column' if each row of the left side leaves once, with the version that counts "
            "then; or row_key=['column'] if it is updated when the version changes."
        )


def check_version_key(where: str, key: Sequence[str], version_key: Sequence[str]) -> None:
    """Raises `PipelineDefinitionError` unless a join finds the one row of its right side."""
    if set(key) != set(version_key):
        raise PipelineDefinitionError(
            f"The {where} joins by {', '.join(key)}, but the rows of its right side have the key "
            f"{', '.join(version_key)}: there would be several for one row. Join by that key."
        )
