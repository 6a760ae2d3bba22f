"""The entry point for users: a `Pipeline` of sources, steps, keyed operators and sinks.

A pipeline is a description. Building it imports neither Spark nor Airflow and touches no file. `graph.compile_graph`
checks it as a whole, and a region executes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.expectations import ExpectationSuite, require_suite
from tidegate.pipeline.previous import Previous
from tidegate.pipeline.streams import Stream
from tidegate.pipeline.ttl import ttl_of
from tidegate.pipeline.vertices import (
    CheckVertex,
    KeyedVertex,
    Query,
    SinkVertex,
    SourceVertex,
    UpdateFunction,
    Vertex,
)
from tidegate.pipeline.windows import MAX_AHEAD, declared_time
from tidegate.ports import CheckpointListener, PlacedSink, QuarantiningSource, Source
from tidegate.ports.declared_schemas import Schema, ddl_of
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.facts.keygroups import MAX_PARALLELISM_LIMIT, default_max_parallelism


class Pipeline:
    """A named graph of sources, steps, keyed operators and sinks whose positions, state and output move together.

    Args:
        name: The name under which checkpoints are recorded: lower-case letters, digits and `_`, at most 63.
        parallelism: The number of subtasks of each step, keyed operator and sink.
        max_parallelism: The number of key groups of keyed state. By default, existing state keeps its number; new state
            gets room for half as many subtasks again, at least 128. `tidegate rewrite` changes it for existing state.
        checkpoints: The options of the pipeline's checkpoints.

    Raises:
        PipelineDefinitionError: Unless 1 <= `parallelism` <= `max_parallelism` <= 32,768.

    Example:
        ```python
        from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, sum_

        pipeline = Pipeline("shop", parallelism=4, checkpoints=CheckpointConfig(retained=3))
        orders = pipeline.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))
        totals = orders.key_by("customer").aggregate("customers", orders=count(), cents=sum_("cents"))
        totals.sink("totals", ParquetSink("tables/totals", mode="latest"))
        ```
    """

    def __init__(
        self,
        name: str,
        parallelism: int = 2,
        max_parallelism: int | None = None,
        checkpoints: CheckpointConfig | None = None,
    ) -> None:
        self.sets_max_parallelism: bool = max_parallelism is not None
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
        self.checkpoints: CheckpointConfig = checkpoints or CheckpointConfig()
        self.vertices: list[Vertex] = []
        self.listeners: list[CheckpointListener] = []

    def add(self, vertex: Vertex) -> Stream:
        """Add a vertex. Prefer the other methods, which create vertices.

        Args:
            vertex: A source, step, keyed operator, sink or check.

        Returns:
            The stream of the vertex's rows.

        Raises:
            PipelineDefinitionError: If its `expect` is not a suite.
        """
        if isinstance(vertex, (SinkVertex, KeyedVertex, CheckVertex)):
            require_suite(vertex.expect, f"{vertex.name!r} of pipeline {self.name!r}")
        if isinstance(vertex, SinkVertex) and isinstance(vertex.sink, PlacedSink):
            vertex = replace(vertex, sink=vertex.sink.placed(self.name, vertex.name))
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
        """Read a replayable input.

        Args:
            name: The name under which its positions are recorded.
            source: The source, such as a `FileSource`.
            previous: The name that the source had before, if it was renamed.
            event_time: The column with the time of the event, a timestamp or a date. Required for windows.
            delay: How much later than others the rows may arrive, such as `"5 min"`. The watermark trails the largest
                event time by this delay. A window is emitted when the watermark passes its end.
            max_ahead: If windows follow, a row whose event time is further ahead of the clock is malformed, and does
                not advance the watermark. None allows any time.

        Returns:
            The stream of its rows. If the source has a `quarantine`, malformed rows go to that sink.

        Raises:
            PipelineDefinitionError: If `delay` or `max_ahead` is not a duration, or is negative, or if `delay` is given
                without `event_time`.
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
        """Decorate a function that updates keyed state: `update(*batches, state)`, all Spark DataFrames.

        The function receives one batch for each input, in order, with the rows of this checkpoint, and the state of the
        keys in these batches. It returns the rows to upsert, at most one for each of these keys, in the columns of
        `state`. A row whose boolean column `_delete` is true removes its key. Other keys keep their row. With an
        `output`, the function returns an `Update` of rows to upsert and rows to emit.

        The function must be deterministic, because a retry runs it again on the same rows. Draw non-deterministic
        values, such as `rand()`, in a transform in front of it with `deterministic=False`.

        Args:
            name: The name under which its state is recorded.
            inputs: The streams to read.
            key: The columns of the key, which every input has. Null is a key like any other.
            state: The columns of the state as DDL or `StructType`, key included.
            output: The columns of the emitted rows. By default, the new rows of the state are emitted.
            defaults: By column, the value in rows that are older than the column. By default null.
            expect: Validates the whole state at every checkpoint.
            previous: The former name of the operator, or a `Previous` that also names its former columns.
            ttl: How long a row lives after the function last returned it, such as `"30 d"`. By default for ever.
            ttl_by: A column of the state. With it, a row lives for `ttl` after the time in this column.

        Returns:
            A decorator that replaces the function by the operator's stream.

        Raises:
            PipelineDefinitionError: If a schema or a duration cannot be read, or if `ttl_by` is given without `ttl`.

        Example:
            ```python
            from tidegate import FileSource, Pipeline

            pipeline = Pipeline("shop")
            orders = pipeline.source("orders", FileSource("landing", schema="customer STRING, cents BIGINT"))


            @pipeline.keyed("largest", inputs=[orders], key=["customer"], state="customer STRING, cents BIGINT")
            def largest(orders, state):
                return orders.unionByName(state).groupBy("customer").agg({"cents": "max"}).toDF("customer", "cents")
            ```
        """
        time_to_live = ttl_of(name, ttl, ttl_by)

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
                ttl=time_to_live,
            )
            return self.add(vertex)

        return decorate

    def listen(self, listener: CheckpointListener) -> None:
        """Notify a listener when checkpoints complete (after their sinks have committed), fail and are subsumed.

        Args:
            listener: The listener. It is called in the process that carries out the step.
        """
        self.listeners.append(listener)

    def check(self, name: str, *, sinks: Sequence[str], expect: ExpectationSuite) -> Callable[[Query], Query]:
        """Decorate a query over the staged rows of several sinks, `query(*staged) -> DataFrame`.

        Args:
            name: The name of the check in reports.
            sinks: The names of the sinks. The query receives a DataFrame for each, in this order.
            expect: Validates the result of the query before any of the staged rows is visible.

        Returns:
            A decorator that returns the query unchanged.

        Raises:
            PipelineDefinitionError: If `expect` is not a suite. Raised when the decorator is applied.
        """

        def decorate(query: Query) -> Query:
            self.add(CheckVertex(name, tuple(sinks), query, expect))
            return query

        return decorate
