"""The ways in which the columns of a sink's table follow those of the rows."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class EvolvingSink(Protocol):
    """A sink whose table follows the columns of the rows: new columns are added, and narrower ones are widened. Readers
    of the table need not change."""

    @property
    def renamed(self) -> Mapping[str, str]:
        """The columns of the table that have another name in the rows now: the new names by the old ones."""
        ...


@runtime_checkable
class SelectingSink(Protocol):
    """A sink to a table whose columns the user defines. It adds none, and refuses rows that do not fit."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns of the rows that it writes; None for all."""
        ...


@runtime_checkable
class DirectorySink(Protocol):
    """A sink whose table is a directory of Parquet files. Each file keeps the columns that its rows had."""

    @property
    def directory(self) -> str:
        """The path or URL of the directory."""
        ...
