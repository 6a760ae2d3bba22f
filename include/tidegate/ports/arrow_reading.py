"""Reading what arrived in the Python process of a Spark task, where Spark's own reader is not needed."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from tidegate.ports.connectors import Segment


class LeftToSparkError(Exception):
    """An `ArrowReader` cannot read something exactly as Spark would. Spark reads it, or says what is wrong with it."""


class ArrowReader(Protocol):
    """Reads a few segments. Runs on executors: picklable, importing only the standard library, numpy and pyarrow."""

    def read(self, schema: Any) -> Iterator[Any]:
        """All rows, as `pyarrow.RecordBatch`es of a `pyarrow.Schema` that has some of the source's columns, in the
        types in which Spark sends them to Python. Repeatable. Raises `LeftToSparkError`, also between batches."""
        ...


@runtime_checkable
class ArrowSource(Protocol):
    """A source whose rows can be read without Spark."""

    def arrow_reader(self, segments: Sequence[Segment]) -> ArrowReader | None:
        """What reads these segments; None if Spark must. Checks them as `Source.read` does."""
        ...
