"""In what two pipelines differ: their tables, as readers see them, and the state of their operators.

Tables and operators are matched by name. Values and decisions only; `spark.comparison` counts rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate.protocol.facts.records import CheckpointRecord


class Part(StrEnum):
    TABLE = "TABLE"
    STATE = "STATE"


class Likeness(StrEnum):
    SAME = "SAME"
    DIFFERENT = "DIFFERENT"
    ONLY_IN_FIRST = "ONLY_IN_FIRST"
    ONLY_IN_SECOND = "ONLY_IN_SECOND"
    NOT_COMPARED = "NOT_COMPARED"  # a sink that cannot read back what it shows


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one side. `surplus` is how many of them the other side lacks; `sample` shows some of these as
    JSON."""

    number: int
    surplus: int
    sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Both sides of a table or a state. `columns` are those that only one side has: rows are compared without them."""

    first: Rows
    second: Rows
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    part: Part
    name: str
    likeness: Likeness
    rows: CountedRows | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two pipelines at their latest completed checkpoints."""

    first: CheckpointRecord
    second: CheckpointRecord
    compared: tuple[Compared, ...]

    @property
    def is_same(self) -> bool:
        """Whether all is the same that could be compared."""
        return all(each.likeness in (Likeness.SAME, Likeness.NOT_COMPARED) for each in self.compared)


def find_unmatched(part: Part, first: Mapping[str, object], second: Mapping[str, object]) -> list[Compared]:
    """What only one of two pipelines has, by name. Performs no I/O."""
    only_first = [Compared(part, name, Likeness.ONLY_IN_FIRST) for name in first if name not in second]
    return [*only_first, *(Compared(part, name, Likeness.ONLY_IN_SECOND) for name in second if name not in first)]


def judge(part: Part, name: str, rows: CountedRows | None) -> Compared:
    """`rows` None: they cannot be read. Performs no I/O."""
    if rows is None:
        return Compared(part, name, Likeness.NOT_COMPARED)
    is_same = not (rows.first.surplus or rows.second.surplus or rows.columns)
    return Compared(part, name, Likeness.SAME if is_same else Likeness.DIFFERENT, rows)
