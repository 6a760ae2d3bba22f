"""The differences of two pipelines: in their tables, as readers see them, and in the state of their operators.

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
    NOT_COMPARED = "NOT_COMPARED"  # a sink that cannot read its table back


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one side. `surplus` is the number of rows that the other side lacks. `sample` has some of these as
    JSON."""

    number: int
    surplus: int
    sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Both sides of a table or a state. `columns` are those of one side only. Rows are compared without them."""

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
        """Whether everything that could be compared is the same."""
        return all(each.likeness in (Likeness.SAME, Likeness.NOT_COMPARED) for each in self.compared)


def find_unmatched(part: Part, first: Mapping[str, object], second: Mapping[str, object]) -> list[Compared]:
    """Find the parts that only one of two pipelines has, by name. Performs no I/O."""
    only_first = [Compared(part, name, Likeness.ONLY_IN_FIRST) for name in first if name not in second]
    return [*only_first, *(Compared(part, name, Likeness.ONLY_IN_SECOND) for name in second if name not in first)]


def compare_part(part: Part, name: str, rows: CountedRows | None) -> Compared:
    """Compare the rows of a part; None if they cannot be read. Performs no I/O."""
    if rows is None:
        return Compared(part, name, Likeness.NOT_COMPARED)
    is_same = not (rows.first.surplus or rows.second.surplus or rows.columns)
    return Compared(part, name, Likeness.SAME if is_same else Likeness.DIFFERENT, rows)
