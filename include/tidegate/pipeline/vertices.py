"""The vertices of a graph: sources, steps, keyed operators, sinks, and checks of the rows that sinks have staged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate.pipeline.aggregates import Aggregate
from tidegate.pipeline.corrections import Corrections
from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.joins import Join
from tidegate.pipeline.previous import Previous
from tidegate.pipeline.session_windows import SessionWindow
from tidegate.pipeline.tables import Table
from tidegate.pipeline.windows import EventTime, Window
from tidegate.ports import BacklogSource, DeliveryGuarantee, DiscoveringSource, LaggingSource, Segment, Sink, Source
from tidegate.ports.declared_schemas import ddl_of
from tidegate.protocol.facts.names import operator_of_sink
from tidegate.protocol.facts.records import Pending
from tidegate.protocol.recovery.changes import WINDOW
from tidegate.protocol.schema.expiry import TimeToLive
from tidegate.protocol.schema.state_schema import BOUNDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.pipeline.streams import Stream
    from tidegate.pipeline.update import Update


#: Takes one DataFrame for each input, and the state of their keys. An operator with an `output` returns an `Update`.
UpdateFunction: TypeAlias = Callable[..., "DataFrame | Update"]
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

    @property
    def declared_schema(self) -> str | None:
        """The DDL of the rows; None if the source must first connect to find it out."""
        declared = self.source.declared_schema if isinstance(self.source, DiscoveringSource) else self.source.schema
        return None if declared is None else ddl_of(declared)

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Return whether more has arrived than a poll took. A source that cannot tell is never behind."""
        return isinstance(self.source, BacklogSource) and self.source.is_behind(split, polled)

    def pending(self, split: int) -> Pending | None:
        """Return the backlog left by the last poll; None if the source cannot tell."""
        return self.source.pending(split) if isinstance(self.source, LaggingSource) else None


@dataclass(frozen=True, slots=True, eq=False)
class CheckVertex:
    """A validation across several sinks. `query` makes one DataFrame of their staged rows, and `expect` validates
    it."""

    name: str
    sinks: tuple[str, ...]
    query: Query
    expect: ExpectationSuite


@dataclass(frozen=True, slots=True, eq=False)
class StepVertex:
    """A transform that is not deterministic, the last one of `input`. Its rows are durable before any consumer reads
    them."""

    name: str
    input: "Stream"

    @property
    def operator_id(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class KeyedVertex:
    """A keyed operator: `aggregates`, a `join`, a `table`, or `update` with the DDL of its state rows, key included.

    `defaults` are the values in rows that are older than a column. With `output`, the DDL of rows that `update` emits,
    the stream carries these rows. Without it, the stream carries the new row of every changed key. With a `window`, the
    stream carries the rows of windows that the watermark has passed, once, or again as `corrections` tell. `ttl` bounds
    the life of rows.
    """

    name: str
    inputs: tuple["Stream", ...]
    key: tuple[str, ...]
    expect: ExpectationSuite | None = None
    aggregates: tuple[tuple[str, Aggregate], ...] = ()
    update: UpdateFunction | None = None
    state: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    previous: Previous = field(default_factory=Previous)
    output: str | None = None
    join: Join | None = None
    ttl: TimeToLive | None = None
    window: Window | None = None
    table: Table | None = None
    corrections: Corrections | None = None

    @property
    def operator_id(self) -> str:
        return self.name

    @property
    def emits(self) -> bool:
        has_versions = self.table is not None and self.table.versions
        return self.output is not None or self.join is not None or self.window is not None or has_versions

    @property
    def state_key(self) -> tuple[str, ...]:
        """The key columns of its state."""
        return self.key if self.window is None else (*self.key, *BOUNDS)

    @property
    def updates(self) -> bool:
        """Whether emitted rows replace earlier ones with the same key of state."""
        return self.corrections is not None and not self.corrections.numbered

    @property
    def withdraws(self) -> bool:
        """Whether some emitted rows, those with a true `_delete`, take back an earlier one."""
        return self.has_sessions and self.corrections is not None

    @property
    def has_sessions(self) -> bool:
        """Whether its windows depend on the rows of a key, so that the rows of a key must stay in one subtask."""
        return isinstance(self.window, SessionWindow)

    def describe(self) -> dict[str, Any]:
        """Return the parts of the definition that its state does not show, but that a change of definition must
        compare."""
        if self.join is not None:
            return {"join": str(self.join)}
        if self.window is None:
            return {}
        return {WINDOW: str(self.window)} | ({} if self.corrections is None else self.corrections.describe())


@dataclass(frozen=True, slots=True, eq=False)
class SinkVertex:
    name: str
    input: "Stream"
    sink: Sink
    expect: ExpectationSuite | None = None
    guarantee: DeliveryGuarantee | str | None = None

    @property
    def operator_id(self) -> str:
        return operator_of_sink(self.name)


Vertex = SourceVertex | StepVertex | KeyedVertex | SinkVertex | CheckVertex
