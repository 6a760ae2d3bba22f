"""Sources and sinks that speak Arrow: reading segments and staged rows without Spark, and the columns that a sink can
store.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tidegate.ports.sources import Segment
from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    import pyarrow as pa


class LeftToSparkError(Exception):
    """Arrow may not read or count something exactly as Spark would. Spark then reads it, or reports the error."""


class ArrowReader(Protocol):
    """Reads a few segments on executors. It is picklable. The standard library, numpy and pyarrow are there; another
    library that it imports must be installed on every worker."""

    def read(self, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """Read all rows. Repeatable.

        Args:
            schema: Some of the source's columns, in the types in which Spark sends them to Python.

        Returns:
            Batches of these columns.

        Raises:
            LeftToSparkError: If Spark must read them. It may be raised between batches.
        """
        ...


@runtime_checkable
class ArrowSource(Protocol):
    """A source whose rows can be read without Spark. Its columns are those of its `schema`, so no DataFrame is
    needed."""

    def arrow_reader(self, segments: Sequence[Segment]) -> ArrowReader | None:
        """Make a reader of segments, and check them as `Source.read` does.

        Args:
            segments: The segments.

        Returns:
            The reader; None if Spark must read them.
        """
        ...


class ArrowRows(Protocol):
    """Rows that are read when they are needed, as a `pyarrow.dataset.Dataset` reads them."""

    @property
    def schema(self) -> "pa.Schema":
        """All columns."""
        ...

    def to_table(self, columns: list[str]) -> "pa.Table":
        """Read all rows.

        Args:
            columns: The columns that are needed at least.

        Returns:
            The rows.
        """
        ...


@runtime_checkable
class ArrowSink(Protocol):
    """A sink whose staged rows can be read without Spark, so that they are validated without it where possible."""

    def staged_rows(self, staged: Sequence[StateHandle]) -> ArrowRows | None:
        """Read staged rows.

        Args:
            staged: The files.

        Returns:
            The columns and values of `Sink.read_staged`; None if Spark must read them.
        """
        ...


@runtime_checkable
class TypedSink(Protocol):
    """A sink that cannot store every column. It reports that when a definition is checked, before there is data."""

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """Find columns that it cannot store.

        Args:
            columns: The columns.

        Returns:
            A phrase for each, which names the column and the way out.
        """
        ...
