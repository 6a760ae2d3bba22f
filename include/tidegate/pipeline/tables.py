"""Declared tables of a stream of changes: the current rows, or all versions of each row. Without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.ports.versioned_sources import CHANGE, VALID_FROM

#: The columns of a history. `_order` orders the rows of one version: it is opened, then closed.
FROM, TO, ORDER = "valid_from", "valid_to", "_order"


@dataclass(frozen=True, slots=True)
class Table:
    """An operator that keeps, for each key, the row of the last change by the column `order`, or none if that was a
    deletion. With `versions` it emits each version of the row when it begins and again when it has ended."""

    order: str = VALID_FROM
    versions: bool = False

    def columns(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of the emitted rows, given the columns of the input."""
        if not self.versions:
            return [name for name in columns if name not in (CHANGE, self.order)]
        return [*(name for name in columns if name != VALID_FROM), FROM, TO, ORDER]
