"""Rows whose event time is too far ahead of the clock: how they are found when they are read, and where they go.

The position of a segment alone decides, so that every consumer and every retry leaves out the same rows, whatever the
time then: those later than the largest event time that was not too far ahead.
"""

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import SourceVertex
from tidegate.ports import QuarantiningSource, Segment
from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.protocol.facts.records import SubtaskId
from tidegate.protocol.steps.watermarks import EventTimes
from tidegate.protocol.text.durations import written
from tidegate.spark.driver.windows import micros

#: The maximum characters of a row in an error.
_SHOWN = 400
_AHEAD = "event time {at} is more than {most} ahead of the clock"


def found_event_times(
    graph: Graph, session: SparkSession, segments: Mapping[SubtaskId, Segment], limits: Mapping[SubtaskId, int]
) -> Mapping[SubtaskId, EventTimes]:
    """Return the event times in the rows of each segment; see `Jobs.event_times`. Runs one Spark job."""
    sources = {vertex.operator_id: vertex for vertex in graph.sources}
    frames = []
    for place, (subtask, segment) in enumerate(segments.items()):
        vertex = sources[subtask.operator_id]
        at, limit = _at(vertex), limits.get(subtask)
        is_ahead = F.lit(False) if limit is None else F.coalesce(at > F.lit(limit), F.lit(False))
        largest, ahead = F.max(F.when(~is_ahead, at)).alias("at"), F.count_if(is_ahead).alias("ahead")
        rows = vertex.source.read(session, [segment])
        frames.append(rows.agg(largest, ahead).select(F.lit(place).alias("place"), "at", "ahead"))
    rows_found = reduce(lambda before, frame: before.union(frame), frames).collect()
    subtasks = list(segments)
    times = {subtasks[row["place"]]: EventTimes(row["at"], row["ahead"]) for row in rows_found}
    for subtask, read in times.items():
        vertex = sources[subtask.operator_id]
        if read.ahead and not _has_quarantine(vertex):
            _refuse(graph, session, vertex, segments[subtask], limits[subtask], read.ahead)
    return {subtask: read for subtask, read in times.items() if read != EventTimes(None)}


def read_segments(vertex: SourceVertex, session: SparkSession, segments: list[Segment], output: str) -> DataFrame:
    """Read an output of a source. Rows that are ahead count as malformed."""
    frame: DataFrame = vertex.source.read(session, [segment for segment in segments if not segment.ahead], output)
    for segment in segments:
        if segment.ahead:
            frame = frame.unionAll(_read_apart(vertex, session, segment, output))
    return frame


def _read_apart(vertex: SourceVertex, session: SparkSession, segment: Segment, output: str) -> DataFrame:
    rows = vertex.source.read(session, [segment], "rows")
    is_ahead = F.coalesce(_is_later(vertex, segment.event_time), F.lit(False))
    if output == "rows":
        return rows.where(~is_ahead)
    malformed = vertex.source.read(session, [segment], output)
    return malformed.unionAll(_as_malformed(vertex, rows.where(is_ahead), malformed))


def _as_malformed(vertex: SourceVertex, rows: DataFrame, like: DataFrame) -> DataFrame:
    """Return rows as malformed ones: the record as JSON, and the reason. The file of a row is no longer known."""
    assert vertex.event_time is not None
    before, after = _AHEAD.format(at="\0", most=_most(vertex)).split("\0")
    reason = F.concat(F.lit(before), F.timestamp_micros(_at(vertex)).cast("string"), F.lit(after))
    known = {"record": F.to_json(F.struct("*")), "reason": reason}
    return rows.select(*(known.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in like.schema.fields))


def _refuse(
    graph: Graph, session: SparkSession, vertex: SourceVertex, segment: Segment, limit: int, ahead: int
) -> None:
    assert vertex.event_time is not None
    rows = vertex.source.read(session, [segment]).where(_at(vertex) > F.lit(limit))
    shown = F.timestamp_micros(_at(vertex)).cast("string"), F.to_json(F.struct("*"))
    [(at, record)] = rows.orderBy(_at(vertex).desc()).select(*shown).take(1)
    name, most = vertex.event_time.column, _most(vertex)
    raise MalformedRowsError(
        f"{ahead} of the rows that source {vertex.name!r} of pipeline {graph.pipeline.name!r} has read are malformed: "
        f"their {name} is more than {most} ahead of the clock. One has {at}: {record[:_SHOWN]}. A watermark that "
        "followed it would close all windows before it. Nothing became visible and no position has moved. Correct the "
        "file, let the source quarantine such rows, or, if such times are right, raise max_ahead. Then run again."
    )


def _most(vertex: SourceVertex) -> str:
    assert vertex.event_time is not None
    assert vertex.event_time.max_ahead is not None
    return written(vertex.event_time.max_ahead)


def _has_quarantine(vertex: SourceVertex) -> bool:
    return isinstance(vertex.source, QuarantiningSource) and vertex.source.quarantine is not None


def _is_later(vertex: SourceVertex, event_time: int | None) -> Column:
    return _at(vertex).isNotNull() if event_time is None else _at(vertex) > F.lit(event_time)


def _at(vertex: SourceVertex) -> Column:
    assert vertex.event_time is not None
    return micros(vertex.event_time.column)
