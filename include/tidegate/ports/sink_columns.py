"""Sinks that say what becomes of their table's columns when those of the rows change."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class EvolvingSink(Protocol):
    """A sink whose table's own columns follow those of the rows: new ones are added, and wider ones widened. It is read
    as before then."""

    @property
    def renamed(self) -> Mapping[str, str]:
        """Columns of the table that have another name in the rows now: their new names by the old ones."""
        ...


@runtime_checkable
class SelectingSink(Protocol):
    """A sink to a table whose columns the user defines: it adds none, and refuses rows that do not fit."""

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns of the rows that it writes; None: all."""
        ...


@runtime_checkable
class DirectorySink(Protocol):
    """A sink whose table is a directory of Parquet files. Each file keeps the columns that its rows had."""

    @property
    def directory(self) -> str:
        """Its path or URL."""
        ...
