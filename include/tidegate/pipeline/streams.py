"""What leaves a vertex of the graph, and what a user does with it: transform, join, partition by key, deliver."""

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

#: The stream of rows that no window took, beside what an operator emits.
LATE_ROWS = "late"


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The rows of one vertex of the graph, after some stateless transforms. `Pipeline` makes streams.

    Nothing is computed before a checkpoint is taken, and Spark runs the transforms together.

    Attributes:
        pipeline: The pipeline.
        origin: The name of the vertex.
        output: Which of its outputs: `rows`, `malformed` or `late`.
        transforms: The functions that are applied to the rows.
    """

    pipeline: "Pipeline"
    origin: str
    output: str = "rows"
    transforms: tuple[Transform, ...] = ()

    def transform(self, function: Transform, *, deterministic: bool = True, name: str | None = None) -> "Stream":
        """Apply a function to the rows of each checkpoint.

        A deterministic transform is computed again for every consumer and every retry. The rows of any other are
        computed once, kept on checkpoint storage until the checkpoint has completed, and read from there by every
        consumer.

        Args:
            function: Takes and returns a DataFrame. It must be stateless: it gets the rows of one checkpoint at a time.
            deterministic: Whether it returns the same rows when it is run again on the same rows.
            name: The name of the step. Needed if it is not deterministic, and only then.

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

        Only an `aggregate` with a window has them. Without a consumer they are dropped, and counted.
        """
        return replace(self, output=LATE_ROWS, transforms=())

    def key_by(self, *columns: str) -> "KeyedStream":
        """Partition the rows by key. Null is a key like any other.

        Args:
            columns: The columns of the key. There may be none if a window follows.

        Returns:
            The rows by key, to be aggregated.
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
        """Emit the rows of this stream with those of another one that have the same key, in any order of arrival.

        Without `keep`, the rows of both sides are kept for ever, and every pair is emitted once. With it, each row of
        this stream is emitted once: as soon as the other stream has a row of its key or, in a left join, at once.

        A source of versions, such as `FileSource(…, mode="snapshot")`, is joined with `as_of` or `row_key`
        (load-dimension-tables.md). With `as_of`, each row of this stream is emitted once, at once. With `row_key`, the
        result is a table, whose rows are updated when those of either stream change.

        Args:
            other: The other stream.
            name: The name under which the state of the join is recorded.
            key: The columns of the key, which both streams have.
            how: `"inner"`, or `"left"`, which needs `keep` and emits nulls where the other stream has no row.
            keep: A column of `other`. For each key, only the row with the largest value in it counts.
            as_of: Which version of `other` counts: with `"checkpoint"` the latest that has been read, else the one that
                was valid at the time in this column of this stream.
            row_key: The columns that tell the rows of this stream apart, and are the key of the table of results. The
                rows of both streams are recorded under `NAME_rows`.
            previous: The name that the join had before, or a `Previous` that names its columns, too.

        Returns:
            The stream of joined rows: the key, then the other columns of this stream, then those of `other`.
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
            previous: The name that the table had before, or a `Previous` that names its columns, too.

        Returns:
            The stream of rows that are new or have changed, for sinks of current rows and of upserts.

        Raises:
            PipelineDefinitionError: If the stream is not of versions.
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

        A version is valid from when its file was written; `valid_to` is null while it is the current one.

        Args:
            name: The name under which the state is recorded. That of the open versions is `NAME_open`.
            expect: Validates all versions at every checkpoint.

        Returns:
            The stream of versions that have begun or ended, for sinks of current rows and of upserts.

        Raises:
            PipelineDefinitionError: If the stream is not of versions.
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
            name: The name under which what it stages is recorded.
            sink: Such as a `ParquetSink`.
            expect: Validates the staged rows before any of them is visible.
            guarantee: The weakest guarantee that is acceptable; by default that of `CheckpointConfig.mode`. A sink that
                cannot give `EXACTLY_ONCE` is refused unless `"AT_LEAST_ONCE"` is declared.
        """
        self.pipeline.add(SinkVertex(name, self, sink, expect, guarantee))


@dataclass(frozen=True, slots=True, eq=False)
class KeyedStream:
    """The rows of a stream by key. `Stream.key_by` makes it.

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
        """Keep declared aggregates for each key.

        With a `window` they are kept for each key and window. The row of a window is emitted once, with its bounds in
        `window_start` and `window_end`, when the watermark has passed its end. Rows that arrive later are in `late`, or
        correct it within `allowed_lateness`: then its row is emitted again.

        Args:
            name: The name under which the state is recorded.
            window: Made by `window` or `session_window`.
            expect: Validates the whole state at every checkpoint, not only what changed.
            previous: The name that the operator had before, or a `Previous` that names its aggregates, too.
            ttl: How long a key lives since a row last arrived for it, such as `"30 d"`. It then begins anew. By default
                for ever.
            ttl_by: The name of an aggregate or of a column of the key. With it, a key lives for `ttl` since that time.
            allowed_lateness: How long after a window's end rows still change it, in event time, such as `"2 d"`. By
                default not at all.
            emit: What is emitted of a window that has changed: `"updates"`, rows that take the place of those before,
                for a sink with `mode="upsert"`; or `"versions"`, rows numbered in `window_version`, for any reader.
            aggregates: By the name of their column: `count()`, `sum_("cents")`, and the like.

        Returns:
            The stream of new rows, one for each key that changed; with a window, one for each window that ended.

        Raises:
            PipelineDefinitionError: If `ttl` or `allowed_lateness` is no duration, if `ttl_by` or `emit` is given
                without it, or if sessions are to be emitted as versions.

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
