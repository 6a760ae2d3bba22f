"""Streams between the vertices of a graph, and their operations: transform, join, partition by key, deliver."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from tidegate.pipeline.aggregates import Aggregate
from tidegate.pipeline.corrections import corrections_of, numbered
from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.joins import Join, check_version_key
from tidegate.pipeline.previous import Previous
from tidegate.pipeline.tables import FROM, ORDER, Table
from tidegate.pipeline.ttl import ttl_of
from tidegate.pipeline.version_keys import require_version_key, version_key_of
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, StepVertex
from tidegate.pipeline.windows import Window
from tidegate.ports import DeliveryGuarantee, Sink
from tidegate.protocol.facts.errors import PipelineDefinitionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.pipeline.definition import Pipeline

Transform: TypeAlias = Callable[["DataFrame"], "DataFrame"]

#: The output of rows that arrived too late for every window of an operator.
LATE_ROWS = "late"


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The rows of one vertex of the graph, after its stateless transforms. `Pipeline` creates streams.

    Nothing is computed before a checkpoint is taken. Spark then runs the transforms together.

    Attributes:
        pipeline: The pipeline.
        origin: The name of the vertex.
        output: The output of the vertex: `rows`, `malformed` or `late`.
        transforms: The functions that are applied to the rows.
    """

    pipeline: "Pipeline"
    origin: str
    output: str = "rows"
    transforms: tuple[Transform, ...] = ()

    def transform(self, function: Transform, *, deterministic: bool = True, name: str | None = None) -> "Stream":
        """Apply a function to the rows of each checkpoint.

        A deterministic transform is computed again for every consumer and every retry. The rows of any other transform
        are computed once and stored on checkpoint storage until the checkpoint has completed. Every consumer reads them
        from there.

        Args:
            function: Takes and returns a DataFrame. It must be stateless: it receives the rows of one checkpoint at a
                time.
            deterministic: Whether it returns the same rows when it runs again on the same rows.
            name: The name of the step. Required if the transform is not deterministic, and otherwise not allowed.

        Returns:
            The stream of the transformed rows.

        Raises:
            PipelineDefinitionError: If only one of `deterministic=False` and `name` is given.
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
        """The rows that arrived after all their windows had been emitted, and those without an event time, unchanged.

        Only an `aggregate` with a window has late rows. Without a consumer they are dropped and counted.
        """
        return replace(self, output=LATE_ROWS, transforms=())

    def key_by(self, *columns: str) -> "KeyedStream":
        """Partition the rows by key. Null is a key like any other.

        Args:
            columns: The columns of the key. They may be left out if a window follows.

        Returns:
            The rows by key, on which to call `aggregate`.
        """
        return KeyedStream(self, columns)

    def join(
        self,
        other: "Stream",
        *,
        name: str,
        key: Sequence[str],
        how: str = "inner",
        keep: str | None = None,
        as_of: str | None = None,
        row_key: Sequence[str] = (),
        previous: Previous | str | None = None,
    ) -> "Stream":
        """Join this stream with rows of another stream that have the same key, in any order of arrival.

        Without `keep`, the rows of both sides are kept for ever, and every pair is emitted once. With `keep`, each row
        of this stream is emitted once: as soon as the other stream has a row of its key or, in a left join, at once.

        A source of versions, such as `FileSource(…, mode="snapshot")`, is joined with `as_of` or `row_key`
        (docs/how-to/load-dimension-tables.md). With `as_of`, each row of this stream is emitted once, at once. With
        `row_key`, the result is a table, whose rows are updated when the rows of either stream change.

        Args:
            other: The other stream.
            name: The name under which the state of the join is recorded.
            key: The columns of the key, which both streams have.
            how: `"inner"`, or `"left"`, which needs `keep` and emits nulls where the other stream has no row.
            keep: A column of `other`. For each key, only the row with the largest value in this column is joined.
            as_of: The version of `other` to join. `"checkpoint"` selects the latest version read so far, the name of a
                time column of this stream the version that was valid at that time.
            row_key: The columns that identify a row of this stream. They become the key of the resulting table. The
                rows of both streams are recorded under `NAME_rows`.
            previous: The former name of the join, or a `Previous` that also names its former columns.

        Returns:
            The stream of joined rows: the key, then the other columns of this stream, then those of `other`.

        Raises:
            PipelineDefinitionError: If `other` is a stream of versions and `key` is not their key.
        """
        version_key, former = version_key_of(other), Previous.of(previous)
        join = Join(how, keep, bool(version_key), as_of, tuple(row_key))
        if version_key:
            check_version_key(f"join {name!r} of pipeline {self.pipeline.name!r}", key, version_key)
        if not row_key:
            return self.pipeline.add(KeyedVertex(name, (self, other), tuple(key), join=join, previous=former))
        sides = Previous(former.name and f"{former.name}_rows")
        rows = self.pipeline.add(KeyedVertex(f"{name}_rows", (self, other), tuple(key), join=join, previous=sides))
        return self.pipeline.add(KeyedVertex(name, (rows,), tuple(row_key), previous=former, table=Table(ORDER)))

    def current(
        self,
        name: str,
        *,
        expect: ExpectationSuite | None = None,
        previous: Previous | str | None = None,
    ) -> "Stream":
        """Keep the current rows of a source of versions, such as `FileSource(…, mode="snapshot")`.

        Args:
            name: The name under which the state is recorded.
            expect: Validates all current rows at every checkpoint.
            previous: The former name of the table, or a `Previous` that also names its former columns.

        Returns:
            The stream of new and changed rows, for sinks of current rows and of upserts.

        Raises:
            PipelineDefinitionError: If the stream does not come from a source of versions.
        """
        key = require_version_key(self, f"The table {name!r}")
        table = KeyedVertex(name, (self,), key, expect=expect, previous=Previous.of(previous), table=Table())
        return self.pipeline.add(table)

    def history(
        self,
        name: str,
        *,
        expect: ExpectationSuite | None = None,
    ) -> "Stream":
        """Keep every version of each row of a source of versions, with `valid_from` and `valid_to`.

        A version is valid from the time at which its file was written. `valid_to` is null for the current version.

        Args:
            name: The name under which the state is recorded. The open versions are recorded under `NAME_open`.
            expect: Validates all versions at every checkpoint.

        Returns:
            The stream of versions that have begun or ended, for sinks of current rows and of upserts.

        Raises:
            PipelineDefinitionError: If the stream does not come from a source of versions.
        """
        key = require_version_key(self, f"The history {name!r}")
        opened = KeyedVertex(f"{name}_open", (self,), key, table=Table(versions=True))
        closed = self.pipeline.add(opened)
        return self.pipeline.add(KeyedVertex(name, (closed,), (*key, FROM), expect=expect, table=Table(ORDER)))

    def sink(
        self,
        name: str,
        sink: Sink,
        expect: ExpectationSuite | None = None,
        guarantee: DeliveryGuarantee | str | None = None,
    ) -> None:
        """Deliver the rows to a sink.

        Args:
            name: The name under which the staged rows are recorded.
            sink: The sink, such as a `ParquetSink`.
            expect: Validates the staged rows before any of them is visible.
            guarantee: The weakest acceptable guarantee. By default `CheckpointConfig.mode`. A sink that cannot give
                `EXACTLY_ONCE` is refused unless `"AT_LEAST_ONCE"` is declared.

        Raises:
            PipelineDefinitionError: If `expect` is not a suite.
        """
        self.pipeline.add(SinkVertex(name, self, sink, expect, guarantee))


@dataclass(frozen=True, slots=True, eq=False)
class KeyedStream:
    """The rows of a stream by key. `Stream.key_by` creates it.

    Attributes:
        stream: The stream.
        key: The columns of the key.
    """

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
        allowed_lateness: str | timedelta | None = None,
        emit: str | None = None,
        **aggregates: Aggregate,
    ) -> Stream:
        """Maintain declared aggregates for each key.

        With a `window`, they are maintained for each key and window. The row of a window is emitted once, with its
        bounds in `window_start` and `window_end`, when the watermark has passed its end. Rows that arrive later go to
        `late`. Within `allowed_lateness` they instead correct the window, and its row is emitted again.

        Args:
            name: The name under which the state is recorded.
            window: The windows, from `window` or `session_window`.
            expect: Validates the whole state at every checkpoint, not only the changes.
            previous: The former name of the operator, or a `Previous` that also names its former aggregates.
            ttl: How long a key lives after its last row arrived, such as `"30 d"`. It then starts from nothing. By
                default for ever.
            ttl_by: The name of an aggregate or of a column of the key. With it, a key lives for `ttl` after that time.
            allowed_lateness: How long after a window's end, in event time, rows still change it, such as `"2 d"`. By
                default they do not.
            emit: The rows emitted for a window that has changed: `"updates"` (the default), which replace the earlier
                ones, for a sink with `mode="upsert"`; or `"versions"`, numbered in `window_version`, for any reader.
            aggregates: Each aggregate by the name of its column, such as `orders=count()` or `cents=sum_("cents")`.

        Returns:
            The stream of new rows, one for each changed key or, with a window, one for each window that ended.

        Raises:
            PipelineDefinitionError: If `ttl` or `allowed_lateness` is not a duration or out of range, if `ttl_by` is
                given without `ttl` or `emit` without `allowed_lateness`, or if sessions are to be emitted as versions.

        Example:
            ```python
            from tidegate import FileSource, Pipeline, count, sum_, window

            pipeline = Pipeline("shop")
            source = FileSource("landing", schema="customer STRING, cents BIGINT, at TIMESTAMP")
            orders = pipeline.source("orders", source, event_time="at", delay="5 min")
            orders.key_by("customer").aggregate("customers", orders=count(), cents=sum_("cents"), ttl="90 d")
            orders.key_by().aggregate("hours", window("at", "1 hour"), orders=count())
            ```
        """
        corrections = corrections_of(name, window, allowed_lateness, emit)
        vertex = KeyedVertex(
            name,
            (self.stream,),
            self.key,
            expect=expect,
            aggregates=numbered(name, corrections, tuple(aggregates.items())),
            previous=Previous.of(previous),
            window=window,
            ttl=ttl_of(name, ttl, ttl_by),
            corrections=corrections,
        )
        return self.stream.pipeline.add(vertex)
