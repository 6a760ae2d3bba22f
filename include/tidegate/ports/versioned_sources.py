"""Sources of versions, each of which replaces the one before: their rows are changes of rows with a key."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

#: Beside the columns of a version: what became of the row, and since when it is so.
CHANGE, VALID_FROM = "_change", "_valid_from"
ADDED = f"{CHANGE} STRING, {VALID_FROM} TIMESTAMP"
INSERT, UPDATE, DELETE = "insert", "update", "delete"


@runtime_checkable
class VersionedSource(Protocol):
    """A source whose rows say what has changed from one version to the next, in the columns of `ADDED`. A row that is
    gone has the values that it had."""

    @property
    def version_key(self) -> Sequence[str]:
        """The columns that tell the rows of a version apart."""
        ...
