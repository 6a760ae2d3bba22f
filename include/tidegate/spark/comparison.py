"""Comparison of the tables of two pipelines, and of the state of their operators, row by row.

A row is compared as its JSON text: every type has one, and a whole number is the same whatever its width. Tables are
compared as multisets, because they may contain a row twice.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from tidegate.pipeline.graph import Graph
from tidegate.ports import ReadableSink
from tidegate.protocol.recovery.comparison import Compared, CountedRows, Part, Rows, compare_part, find_unmatched
from tidegate.spark.state_source import FORMAT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The options of format `tidegate_state`, by operator.
States = Mapping[str, Mapping[str, str]]


def compare_tables(session: "SparkSession", first: Graph, second: Graph, sample: int) -> list[Compared]:
    """Compare the visible rows of each sink. `sample` is the number of differing rows to show."""
    sinks = [{vertex.name: vertex.sink for vertex in graph.sinks} for graph in (first, second)]
    results = find_unmatched(Part.TABLE, *sinks)
    for name in [name for name in sinks[0] if name in sinks[1]]:
        both = [by_name[name] for by_name in sinks]
        frames = [sink.read_table(session) for sink in both if isinstance(sink, ReadableSink)]
        rows = compare_rows(frames[0], frames[1], sample) if len(frames) == 2 else None
        results.append(compare_part(Part.TABLE, name, rows))
    return results


def compare_states(session: "SparkSession", first: States, second: States, sample: int) -> list[Compared]:
    """Compare the state of each operator, by its name."""
    results = find_unmatched(Part.STATE, first, second)
    for name in [name for name in first if name in second]:
        both = [session.read.format(FORMAT).options(**options[name]).load() for options in (first, second)]
        results.append(compare_part(Part.STATE, name, compare_rows(both[0], both[1], sample)))
    return results


def compare_rows(first: "DataFrame | None", second: "DataFrame | None", sample: int) -> CountedRows:
    """Compare rows; None stands for no rows, without columns yet. It takes one job, and another one for the sample if
    they differ."""
    if first is None or second is None:
        known = first if second is None else second
        if known is None:
            return CountedRows(Rows(0, 0), Rows(0, 0))
        nothing = known.limit(0)
        first, second = (known, nothing) if second is None else (nothing, known)
    common = [name for name in first.columns if name in second.columns]
    apart = sorted({*first.columns} ^ {*second.columns})
    counted = (
        _texts(first, common, 1, 0)
        .union(_texts(second, common, 0, 1))
        .groupBy("row")
        .agg(F.sum("ours").alias("ours"), F.sum("theirs").alias("theirs"))
    )
    surplus = F.greatest(F.col("ours") - F.col("theirs"), F.lit(0))
    lacking = F.greatest(F.col("theirs") - F.col("ours"), F.lit(0))
    sums = [F.sum(column) for column in (F.col("ours"), F.col("theirs"), surplus, lacking)]
    ours, theirs, more, fewer = (int(value or 0) for value in counted.agg(*sums).collect()[0])
    return CountedRows(
        Rows(ours, more, _sample(counted, surplus, sample if more else 0)),
        Rows(theirs, fewer, _sample(counted, lacking, sample if fewer else 0)),
        tuple(apart),
    )


def _texts(frame: "DataFrame", columns: list[str], ours: int, theirs: int) -> "DataFrame":
    named = [F.col(f"`{name.replace('`', '``')}`") for name in columns]
    text = F.to_json(F.struct(*named), {"ignoreNullFields": "false"}) if named else F.lit("{}")
    return frame.select(text.alias("row"), F.lit(ours).alias("ours"), F.lit(theirs).alias("theirs"))


def _sample(counted: "DataFrame", surplus: "Column", number: int) -> tuple[str, ...]:
    if not number:
        return ()
    rows = counted.where(surplus > 0).orderBy("row").limit(number).select("row").collect()
    return tuple(row[0] for row in rows)
