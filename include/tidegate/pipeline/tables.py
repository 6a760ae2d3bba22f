"""Declared tables of the rows of a stream of changes: the current ones, or all versions of each. Without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.ports.versioned_sources import CHANGE, VALID_FROM

#: The columns of a history, and what orders the rows of one version: it is closed after it was opened.
FROM, TO, ORDER = "valid_from", "valid_to", "_order"


@dataclass(frozen=True, slots=True)
class Table:
    """An operator that keeps, for each key, the row of the last change by the column `order`; if that was a deletion,
    none. With `versions` it emits each version of the row, once when it begins and once when it has ended."""

    order: str = VALID_FROM
    versions: bool = False

    def columns(self, columns: Sequence[str]) -> list[str]:
        """The columns of what leaves, by those of its input."""
        if not self.versions:
            return [name for name in columns if name not in (CHANGE, self.order)]
        return [*(name for name in columns if name != VALID_FROM), FROM, TO, ORDER]
