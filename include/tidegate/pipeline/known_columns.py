"""Checks of the columns in a definition: columns that its streams lack, and constraints that Tidegate does not keep.
They read only the text of the definition and need no Spark.

The columns of a stream are known behind a source whose schema is DDL and behind declared aggregates, and unknown behind
a transform. `tidegate check` reads the others with Spark.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.joins import CHECKPOINT, Join
from tidegate.pipeline.streams import LATE_ROWS, Stream
from tidegate.pipeline.tables import ORDER
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex, SourceVertex, Vertex
from tidegate.ports.versioned_sources import CHANGE, VALID_FROM
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.schema.ddl import columns_of
from tidegate.protocol.schema.ddl_promises import unkept_promises


def check_columns(pipeline: str, vertices: Iterable[Vertex]) -> None:
    """Raise `PipelineDefinitionError` for the first named column that a stream does not have."""
    origins = {v.name: v for v in vertices if not isinstance(v, SinkVertex)}
    for vertex in vertices:
        for user, stream_name, known, named in _uses(vertex, origins):
            if known is None:
                continue
            have = {name.lower() for name in known}
            for name in named:
                if name.lower() not in have and "." not in name and "`" not in name:
                    raise PipelineDefinitionError(
                        f"{user} of pipeline {pipeline!r} names a column {name!r}, which {stream_name} does not have. "
                        f"It has {', '.join(known)}.{meant(name, known)}"
                    )


def check_promises(pipeline: str, vertices: Iterable[Vertex]) -> None:
    """Raise `PipelineDefinitionError` for the first constraint in a schema that Tidegate does not keep."""
    for vertex in vertices:
        for what, ddl in _schemas(vertex):
            if (problem := next(unkept_promises(ddl), None)) is not None:
                raise PipelineDefinitionError(
                    f"{what} of pipeline {pipeline!r} declares a constraint that Tidegate does not keep, so a "
                    f"violation would go unnoticed: {problem}."
                )


def _schemas(vertex: Vertex) -> Iterator[tuple[str, str]]:
    match vertex:
        case SourceVertex():
            yield f"The schema of source {vertex.name!r}", vertex.declared_schema or ""
        case KeyedVertex():
            yield f"The state of operator {vertex.name!r}", vertex.state or ""
            yield f"The output of operator {vertex.name!r}", vertex.output or ""


def _uses(vertex: Vertex, origins: Mapping[str, Vertex]) -> Iterator[tuple[str, str, list[str] | None, Iterable[str]]]:
    """Yield each use of columns: the user, the name of the stream, its columns if they are known, and the columns
    used."""
    match vertex:
        case KeyedVertex():
            for stream in vertex.inputs:
                columns = columns_of_stream(stream, origins)
                yield f"The key of operator {vertex.name!r}", repr(stream.origin), columns, vertex.key
                if vertex.window is not None:
                    yield (
                        f"The window of operator {vertex.name!r}",
                        repr(stream.origin),
                        columns,
                        [vertex.window.column],
                    )
                for name, aggregate in vertex.aggregates:
                    user = f"{name}={aggregate.function}(…) in operator {vertex.name!r}"
                    yield user, repr(stream.origin), columns, aggregate.columns()
            if vertex.join is not None:
                yield from _uses_of_join(vertex.join, vertex, origins)
            state = _columns_of_state(vertex)
            if vertex.ttl is not None and not vertex.ttl.processing_time:
                yield f"ttl_by of operator {vertex.name!r}", "its state", state, [vertex.ttl.column]
            yield from _validated(vertex.expect, f"operator {vertex.name!r}", "its state", state)
        case SinkVertex():
            columns = columns_of_stream(vertex.input, origins)
            yield from _validated(vertex.expect, f"sink {vertex.name!r}", repr(vertex.input.origin), columns)


def _uses_of_join(
    join: Join, vertex: KeyedVertex, origins: Mapping[str, Vertex]
) -> Iterator[tuple[str, str, list[str] | None, Iterable[str]]]:
    left, right = ((repr(stream.origin), columns_of_stream(stream, origins)) for stream in vertex.inputs)
    as_of = [join.as_of] if join.as_of not in (None, CHECKPOINT) else []
    for what, (stream_name, known), names in (
        ("keep", right, [join.keep]),
        ("as_of", left, as_of),
        ("row_key", left, join.row_key),
    ):
        yield f"{what} in join {vertex.name!r}", stream_name, known, [name for name in names if name]


def _validated(
    suite: ExpectationSuite | None, where: str, whose: str, known: list[str] | None
) -> Iterator[tuple[str, str, list[str] | None, Iterable[str]]]:
    for expectation in suite.expectations if suite else ():
        yield f"{expectation.type} on {where}", whose, known, expectation.columns


def columns_of_stream(stream: Stream, origins: Mapping[str, Vertex]) -> list[str] | None:
    """Return the column names of a stream; None if only Spark can tell."""
    origin = origins.get(stream.origin)
    if stream.output == LATE_ROWS and isinstance(origin, KeyedVertex) and not stream.transforms:
        return columns_of_stream(origin.inputs[0], origins)
    if stream.transforms or stream.output != "rows":
        return None
    match origin:
        case SourceVertex():
            return [name for name, _ in columns_of(origin.declared_schema or "")] or None
        case KeyedVertex() if origin.join is not None:
            return _columns_of_join(origin, origins)
        case KeyedVertex() if origin.table is not None:
            columns = columns_of_stream(origin.inputs[0], origins)
            return None if columns is None else origin.table.columns(columns)
        case KeyedVertex():
            return _declared(origin.output) if origin.output is not None else _columns_of_state(origin)
        case _:
            return None


def _columns_of_join(vertex: KeyedVertex, origins: Mapping[str, Vertex]) -> list[str] | None:
    sides = [columns_of_stream(stream, origins) for stream in vertex.inputs]
    without_key = [[name for name in side if name not in vertex.key] for side in sides if side is not None]
    if vertex.join is None or len(without_key) < len(sides):
        return None
    shown = [name for name in without_key[1] if not vertex.join.versioned or name not in (CHANGE, VALID_FROM)]
    return [*vertex.key, *without_key[0], *shown, *((CHANGE, ORDER) if vertex.join.row_key else ())]


def _columns_of_state(vertex: KeyedVertex) -> list[str] | None:
    """Return the columns of the rows that readers see of the state."""
    if vertex.state is not None:
        return _declared(vertex.state)
    return [*vertex.state_key, *(name for name, _ in vertex.aggregates)]


def _declared(ddl: str) -> list[str] | None:
    return [name for name, _ in columns_of(ddl)] or None


def meant(name: str, known: Sequence[str]) -> str:
    """Return a sentence that suggests the closest name; empty if none is similar."""
    close = get_close_matches(name.lower(), [column.lower() for column in known], 1)
    return f" Is {next(column for column in known if column.lower() == close[0])!r} meant?" if close else ""
