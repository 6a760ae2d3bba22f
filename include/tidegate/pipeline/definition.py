"""What a user writes: a `Pipeline` of sources, steps, keyed operators and sinks.

A pipeline is a description. Building it imports neither Spark nor Airflow and touches no file; `graph.compile_graph`
checks it as a whole, and a region executes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate.pipeline.aggregates import Aggregate
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.joins import Join
from tidegate.pipeline.previous import Previous
from tidegate.pipeline.ttl import ttl_of
from tidegate.pipeline.vertices import CheckVertex, Query, SourceVertex
from tidegate.pipeline.windows import BOUNDS, MAX_AHEAD, Window, declared_time
from tidegate.ports import (
    CheckpointListener,
    DeliveryGuarantee,
    QuarantiningSource,
    Sink,
    Source,
)
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.keygroups import MAX_PARALLELISM_LIMIT, default_max_parallelism
from tidegate.protocol.facts.names import operator_of_sink
from tidegate.protocol.schema.ddl import Schema, ddl_of
from tidegate.protocol.schema.expiry import TimeToLive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.pipeline.update import Update

Transform: TypeAlias = Callable[["DataFrame"], "DataFrame"]
#: Takes one DataFrame for each input, and the state of their keys. An operator with an `output` returns an `Update`.
UpdateFunction: TypeAlias = Callable[..., "DataFrame | Update"]

#: The stream of rows that no window took, beside what an operator emits.
LATE_ROWS = "late"


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Rows of one vertex of the graph, after some stateless transforms (lazy, fused by Spark)."""

    pipeline: "Pipeline"
    origin: str
    output: str = "rows"
    transforms: tuple[Transform, ...] = ()

    def transform(self, function: Transform, *, deterministic: bool = True, name: str | None = None) -> "Stream":
        """Apply `function(DataFrame) -> DataFrame`. It must be stateless: it sees one checkpoint's rows at a time.

        A deterministic transform is computed again for every consumer and every retry. Any other transform needs
        `deterministic=False` and a `name` of its own, like an operator's: its rows are computed once, kept on
        checkpoint storage until the checkpoint has completed, and read from there by every consumer. Raises
        `PipelineDefinitionError` if only one of the two is given.
        """
        transformed = replace(self, transforms=(*self.transforms, function))
        if deterministic and name is None:
            return transformed
        if deterministic or name is None:
            raise PipelineDefinitionError(
                f"A transform after {self.origin!r} of pipeline {self.pipeline.name!r} has "
                f"deterministic={deterministic} and name={name!r}. A transform that is not deterministic needs both "
                "deterministic=False and a name, because its rows are kept under that name; any other transform takes "
                "neither."
            )
        return self.pipeline.add(StepVertex(name, transformed))

    @property
    def late(self) -> "Stream":
        """The rows that came when all their windows had been emitted, and those without an event time, as they came.

        Of `aggregate` with a window only. What nobody reads is dropped, and counted.
        """
        return replace(self, output=LATE_ROWS, transforms=())

    def key_by(self, *columns: str) -> "KeyedStream":
        """Partition by key; null is a key like any other. With a window, the key may be empty."""
        return KeyedStream(self, columns)

    def join(
        self,
        other: "Stream",
        *,
        name: str,
        key: Sequence[str],
        how: str = "inner",
        keep: str | None = None,
        previous: Previous | str | None = None,
    ) -> "Stream":
        """Emit the rows of this stream with those of `other` that have the same key, whichever come first.

        Without `keep`, both sides are kept for ever, and every pair is emitted once (`how="inner"` alone). With the
        name of a column of `other`, each row of this stream is emitted once, with that row of `other` that has the
        largest value there: as soon as there is one, or, `how="left"`, at once, with nulls if there is none.
        """
        vertex = KeyedVertex(name, (self, other), tuple(key), join=Join(how, keep), previous=Previous.of(previous))
        return self.pipeline.add(vertex)

    def sink(
        self,
        name: str,
        sink: Sink,
        expect: ExpectationSuite | None = None,
        guarantee: DeliveryGuarantee | str | None = None,
    ) -> None:
        """Deliver the rows exactly once. `expect` judges the staged rows before any of them is visible.

        `guarantee`: the weakest one acceptable for this sink; None for that of `CheckpointConfig.mode`. A sink that
        cannot give EXACTLY_ONCE is refused unless it is declared with "AT_LEAST_ONCE".
        """
        self.pipeline.add(SinkVertex(name, self, sink, expect, guarantee))


@dataclass(frozen=True, slots=True, eq=False)
class KeyedStream:
    stream: Stream
    key: tuple[str, ...]

    def aggregate(
        self,
        name: str,
        window: Window | None = None,
        /,
        *,
        expect: ExpectationSuite | None = None,
        previous: Previous | str | None = None,
        ttl: str | timedelta | None = None,
        ttl_by: str | None = None,
        **aggregates: Aggregate,
    ) -> Stream:
        """Keep declared aggregates per key; the stream carries the new row of every key that changed.

        With a `window` they are kept per key and window: `aggregate("hourly", window("at", "1 hour"), n=count())`. The
        stream carries the row of each window once, with its bounds in `window_start` and `window_end`, when the
        watermark has passed its end. Rows that come later are in `.late`.

        `expect` judges the operator's whole state at every checkpoint, not only what changed. `previous` is the name
        that the operator had before, or see `Previous`. With `ttl`, such as "30 d", a key begins anew once nothing has
        arrived for it so long; with `ttl_by`, the name of an aggregate or column of the key, so long after that time.
        """
        vertex = KeyedVertex(
            name,
            (self.stream,),
            self.key,
            expect=expect,
            aggregates=tuple(aggregates.items()),
            previous=Previous.of(previous),
            window=window,
            ttl=ttl_of(name, ttl, ttl_by),
        )
        return self.stream.pipeline.add(vertex)


@dataclass(frozen=True, slots=True, eq=False)
class StepVertex:
    """A transform that is not deterministic: the last one of `input`. Its rows are durable before any consumer reads
    them."""

    name: str
    input: Stream

    @property
    def operator_id(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class KeyedVertex:
    """A keyed operator: `aggregates`, a `join`, or `update` with the DDL of its state rows (key columns included).

    `defaults` are what rows have that are older than a column. With an `output`, the DDL of rows that `update` emits,
    these are the stream that leaves; without one, it carries the new row of every key that changed. With a `window`,
    these are the rows of windows that the watermark has passed. Rows live as long as `ttl` says.
    """

    name: str
    inputs: tuple[Stream, ...]
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

    @property
    def operator_id(self) -> str:
        return self.name

    @property
    def emits(self) -> bool:
        return self.output is not None or self.join is not None or self.window is not None

    @property
    def state_key(self) -> tuple[str, ...]:
        """The columns by which its state is kept."""
        return self.key if self.window is None else (*self.key, *BOUNDS)


@dataclass(frozen=True, slots=True, eq=False)
class SinkVertex:
    name: str
    input: Stream
    sink: Sink
    expect: ExpectationSuite | None = None
    guarantee: DeliveryGuarantee | str | None = None

    @property
    def operator_id(self) -> str:
        return operator_of_sink(self.name)


Vertex = SourceVertex | StepVertex | KeyedVertex | SinkVertex | CheckVertex


class Pipeline:
    """A named graph of sources, steps, keyed operators and sinks whose positions, state and output move together.

    `parallelism` is the number of subtasks of each step, keyed operator and sink; `max_parallelism` the number of key
    groups. By default that is as many as the state has; for new state, room for half as many subtasks again, at least
    128. State is rewritten for another number (`tidegate rewrite`). Raises `PipelineDefinitionError` if the definition
    is wrong.
    """

    def __init__(
        self,
        name: str,
        parallelism: int = 2,
        max_parallelism: int | None = None,
        checkpoints: CheckpointConfig | None = None,
    ) -> None:
        self.sets_max_parallelism = max_parallelism is not None
        if max_parallelism is None:
            max_parallelism = default_max_parallelism(parallelism)
        if not 1 <= parallelism <= max_parallelism <= MAX_PARALLELISM_LIMIT:
            raise PipelineDefinitionError(
                f"Pipeline {name!r}: parallelism {parallelism} and max_parallelism {max_parallelism} must satisfy "
                f"1 <= parallelism <= max_parallelism <= {MAX_PARALLELISM_LIMIT}."
            )
        self.name = name
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.checkpoints = checkpoints or CheckpointConfig()
        self.vertices: list[Vertex] = []
        self.listeners: list[CheckpointListener] = []

    def add(self, vertex: Vertex) -> Stream:
        """Add a vertex and return the stream that leaves it. The other methods are more convenient."""
        self.vertices.append(vertex)
        return Stream(self, vertex.name)

    def source(
        self,
        name: str,
        source: Source,
        previous: str | None = None,
        *,
        event_time: str | None = None,
        delay: str | timedelta | None = None,
        max_ahead: str | timedelta | None = MAX_AHEAD,
    ) -> Stream:
        """Read a replayable input. `previous` is the name that it had before, if it was renamed.

        `event_time` is the column that says when an event was, and `delay` how much later than others its rows may
        come: the watermark follows the largest event time at that distance, and windows are emitted when it passes
        them. Where windows follow, a row that is more than `max_ahead` ahead of the clock is malformed, and the
        watermark does not follow it; None: however far.
        """
        stream = self.add(
            SourceVertex(name, source, Previous(previous), declared_time(name, event_time, delay, max_ahead))
        )
        if isinstance(source, QuarantiningSource) and source.quarantine is not None:
            self.add(SinkVertex(f"{name}_quarantine", replace(stream, output="malformed"), source.quarantine))
        return stream

    def keyed(
        self,
        name: str,
        *,
        inputs: Sequence[Stream],
        key: Sequence[str],
        state: Schema,
        output: Schema | None = None,
        defaults: Mapping[str, Any] | None = None,
        expect: ExpectationSuite | None = None,
        previous: Previous | str | None = None,
        ttl: str | timedelta | None = None,
        ttl_by: str | None = None,
    ) -> Callable[[UpdateFunction], Stream]:
        """Decorate `update(*batches, state) -> rows to upsert`, all Spark DataFrames.

        One batch per input, in order, with this checkpoint's rows; `state` has the rows of the batches' keys only. The
        result has the columns of `state` (DDL, a `StructType` or a pydantic model, key included), at most one row for
        each of these keys, and optionally a boolean `_delete` column whose true rows remove their key. Untouched keys
        keep their row.
        The function must be deterministic: a retry runs it again on the same rows. Draw values that are not, such as
        rand(), in a transform in front of it with `deterministic=False`.

        With an `output`, declared likewise, the function returns `Update(state=rows to upsert, rows=rows to emit)`. The
        stream carries what it emits: any number of rows, each once.

        When `state` gets another column, rows that are there already have null in it, or what `defaults` says.
        `previous` is the name that the operator had before, or see `Previous`. With `ttl`, such as "30 d", a row leaves
        the state once the function has not returned it anew for so long; with `ttl_by`, a column of the state, so long
        after that time.
        """
        lives = ttl_of(name, ttl, ttl_by)

        def decorate(update: UpdateFunction) -> Stream:
            vertex = KeyedVertex(
                name,
                tuple(inputs),
                tuple(key),
                expect=expect,
                update=update,
                state=ddl_of(state),
                defaults=dict(defaults or {}),
                previous=Previous.of(previous),
                output=None if output is None else ddl_of(output),
                ttl=lives,
            )
            return self.add(vertex)

        return decorate

    def listen(self, listener: CheckpointListener) -> None:
        """Notify a listener when checkpoints complete (after their sinks have committed), fail and are subsumed."""
        self.listeners.append(listener)

    def check(self, name: str, *, sinks: Sequence[str], expect: ExpectationSuite) -> Callable[[Query], Query]:
        """Decorate `query(*staged) -> DataFrame` over the staged rows of several sinks, judged together by `expect`."""

        def decorate(query: Query) -> Query:
            self.add(CheckVertex(name, tuple(sinks), query, expect))
            return query

        return decorate
