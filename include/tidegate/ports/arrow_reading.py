"""Sources and sinks that speak Arrow: reading without Spark what arrived and what was staged, and the columns that a
sink can store.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tidegate.ports.sources import Segment
from tidegate.protocol.facts.records import StateHandle

if TYPE_CHECKING:
    import pyarrow as pa


class LeftToSparkError(Exception):
    """Arrow may not read or count something exactly as Spark would. Spark does it, or says what is wrong with it."""


class ArrowReader(Protocol):
    """Reads a few segments. Runs on executors: picklable, importing only the standard library, numpy and pyarrow."""

    def read(self, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        """All rows, as `pyarrow.RecordBatch`es of a `pyarrow.Schema` that has some of the source's columns, in the
        types in which Spark sends them to Python. Repeatable. Raises `LeftToSparkError`, also between batches."""
        ...


@runtime_checkable
class ArrowSource(Protocol):
    """A source whose rows can be read without Spark. Its columns are those of its `schema`: no frame is asked."""

    def arrow_reader(self, segments: Sequence[Segment]) -> ArrowReader | None:
        """What reads these segments; None if Spark must. Checks them as `Source.read` does."""
        ...


class ArrowRows(Protocol):
    """Rows that are read when somebody asks for them, as a `pyarrow.dataset.Dataset` reads them."""

    @property
    def schema(self) -> "pa.Schema":
        """The `pyarrow.Schema` of all columns."""
        ...

    def to_table(self, columns: list[str]) -> "pa.Table":
        """A `pyarrow.Table` of all rows, with these columns at least."""
        ...


@runtime_checkable
class ArrowSink(Protocol):
    """A sink whose staged rows can be read without Spark, so that they are judged without it where that is possible."""

    def staged_rows(self, staged: Sequence[StateHandle]) -> ArrowRows | None:
        """The columns and values of `Sink.read_staged`. None if Spark must read them."""
        ...


@runtime_checkable
class TypedSink(Protocol):
    """A sink that cannot store every column. It says so when a definition is checked, before there is data."""

    def unstorable(self, columns: "pa.Schema") -> list[str]:
        """What is wrong with the columns of a `pyarrow.Schema`, a phrase each that names the column and the way out."""
        ...
