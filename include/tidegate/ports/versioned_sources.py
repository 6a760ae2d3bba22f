"""Sources of versions, each of which replaces the one before. Their rows are changes of rows with a key."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

#: Two columns in addition to those of a version: the kind of the change, and the time since when it is valid.
CHANGE, VALID_FROM = "_change", "_valid_from"
ADDED = f"{CHANGE} STRING, {VALID_FROM} TIMESTAMP"
INSERT, UPDATE, DELETE = "insert", "update", "delete"


@runtime_checkable
class VersionedSource(Protocol):
    """A source whose rows are the changes from one version to the next, described by the columns of `ADDED`. A deleted
    row has the values that it had before."""

    @property
    def version_key(self) -> Sequence[str]:
        """The columns that tell the rows of a version apart."""
        ...
