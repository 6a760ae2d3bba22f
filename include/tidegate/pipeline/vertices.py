"""The vertices of a graph that read no stream: sources, and checks of what sinks have staged."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.previous import Previous
from tidegate.pipeline.windows import EventTime
from tidegate.ports import BacklogSource, LaggingSource, Segment, Source
from tidegate.protocol.facts.records import Pending
from tidegate.protocol.schema.ddl import ddl_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


#: Takes the staged rows of each of its sinks.
Query: TypeAlias = Callable[..., "DataFrame"]


@dataclass(frozen=True, slots=True, eq=False)
class SourceVertex:
    name: str
    source: Source
    previous: Previous = field(default_factory=Previous)
    event_time: EventTime | None = None

    @property
    def operator_id(self) -> str:
        return self.name

    @property
    def schema(self) -> str:
        """The DDL of the rows."""
        return ddl_of(self.source.schema)

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Whether more has arrived than a poll took. A source that cannot say is never behind."""
        return isinstance(self.source, BacklogSource) and self.source.is_behind(split, polled)

    def pending(self, split: int) -> Pending | None:
        """What the last poll has left. None of a source that cannot say."""
        return self.source.pending(split) if isinstance(self.source, LaggingSource) else None


@dataclass(frozen=True, slots=True, eq=False)
class CheckVertex:
    """A judgement across several sinks: `query` makes one DataFrame of their staged rows, `expect` judges it."""

    name: str
    sinks: tuple[str, ...]
    query: Query
    expect: ExpectationSuite
