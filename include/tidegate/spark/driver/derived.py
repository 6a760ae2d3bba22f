"""The rows that a sink shows of an operator's state, with columns that transforms derive from each of them.

The transforms must keep each row a row, or leave it out: then a table has what the state has. Spark's analysis says so,
and without a job: by the nodes of its plan, and by a mark in the metadata of the key's columns, which travels with a
column as long as it is only selected or renamed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame

from tidegate.dataflow.reports import Report
from tidegate.dataflow.staging import Staging
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import KeyedSink
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.spark.driver.columns import arrow_schema, ddl, map_in_arrow
from tidegate.spark.driver.determinism import not_row_wise
from tidegate.spark.driver.hashing import quoted
from tidegate.spark.driver.run_job import Emit, run_job, run_numbered
from tidegate.spark.driver.streams import Streams
from tidegate.spark.executor.derived import DerivedPlan, NoRowsPlan, ShownRowsPlan
from tidegate.spark.executor.report_rows import REPORT_TYPE
from tidegate.state.layout import DELETE, StateLayout
from tidegate.state.spec import SubtaskSpec

_KEY = "tidegate_key"

#: What users call the others.
_MEANT = {
    "Join": "a join",
    "AsOfJoin": "a join",
    "LateralJoin": "a join",
    "Aggregate": "an aggregate",
    "Distinct": "distinct()",
    "Deduplicate": "dropDuplicates()",
    "Window": "a window function",
    "GlobalLimit": "limit()",
    "LocalLimit": "limit()",
    "Offset": "offset()",
    "Sample": "sample()",
    "Generate": "a function such as explode(), which makes several rows of one",
    "Union": "union()",
    "Except": "subtract()",
    "Intersect": "intersect()",
    "Expand": "a grouping of several kinds",
    "Sort": "an order, which moves rows",
    "Repartition": "repartition() or coalesce(), which moves rows",
    "RepartitionByExpression": "repartition(), which moves rows",
    "MapInPandas": "mapInPandas()",
    "MapInArrow": "mapInArrow()",
}


@dataclass(frozen=True, slots=True)
class Derived:
    """Rows with their derived columns. `keys`: what the columns of the state's key are called now."""

    rows: DataFrame
    keys: Mapping[str, str]


def derived_rows(streams: Streams, sink: SinkVertex, layout: StateLayout, state: DataFrame) -> Derived:
    """What transforms make of rows of state. Raises `PipelineDefinitionError` if a table of current rows cannot have
    that."""
    rows = streams.transformed(sink.input, state.select(*_with_marks(state, layout.key_names)))
    what = f"What {streams.where(sink)} shows of {sink.input.origin!r}"
    streams.require_deterministic(what, rows)
    others = not_row_wise(state, rows)
    if found := sorted({_MEANT[node] for node in others if node in _MEANT} or others):
        raise PipelineDefinitionError(
            f"{what} is not made row by row, because of {', '.join(found)}. The table has a row for each key of the "
            "state, and is given changed rows alone, so each of them must follow from its row of state: select, "
            "withColumn, a rename or where. Let an operator do the rest, in front of it or behind "
            "it, such as key_by(…).aggregate(…), or let the sink append."
        )
    return Derived(rows, _keys(what, sink, layout.key_names, rows))


def check_derived(streams: Streams, sink: SinkVertex, vertex: KeyedVertex) -> None:
    """The same without rows. Raises `PipelineDefinitionError`."""
    layout = streams.layout(vertex)
    derived_rows(streams, sink, layout, streams.empty(layout.rows))


@dataclass(frozen=True, slots=True)
class DerivedStaging:
    """Stages the rows of a sink, of the state that `specs` lead to."""

    streams: Streams
    sink: SinkVertex
    staging: Staging
    layout: StateLayout
    specs: Mapping[int, SubtaskSpec]

    def run(self, at_once: int, emit: Emit) -> None:
        """A Spark job for each `at_once` subtasks, so that it takes no more slots of the cluster."""
        indexes = sorted(self.specs)
        for first in range(0, len(indexes), at_once):
            self._run(tuple(indexes[first : first + at_once]), emit)

    def _run(self, indexes: tuple[int, ...], emit: Emit) -> None:
        shown = ShownRowsPlan(indexes, self.specs, self.staging.had)
        numbers = self.streams.session.range(0, len(indexes), 1, len(indexes))
        derived = derived_rows(
            self.streams, self.sink, self.layout, numbers.mapInArrow(shown.run, ddl(self.layout.rows))
        )
        plan = DerivedPlan(indexes, self.specs, self.staging, arrow_schema(derived.rows.schema), derived.keys)
        done = set[int]()

        def note(reports: list[Report]) -> None:
            done.update(report.subtask_index for report in reports)
            emit(reports)

        run_job(map_in_arrow(derived.rows, plan.run, REPORT_TYPE), note)
        if left := tuple(index for index in indexes if index not in done):
            run_numbered(self.streams.session, NoRowsPlan(replace(plan, indexes=left)), len(left), emit)


def _with_marks(state: DataFrame, keys: Sequence[str]) -> Iterator[Column]:
    for name in state.columns:
        column = state[quoted(name)]
        yield column.alias(name, metadata={_KEY: name}) if name in keys else column


def _keys(what: str, sink: SinkVertex, keys: Sequence[str], rows: DataFrame) -> dict[str, str]:
    if DELETE in rows.columns:
        raise PipelineDefinitionError(
            f"{what} has a column {DELETE}. Leave out rows with where(…): their keys are removed from the table."
        )
    wanted = set(sink.sink.keys) if isinstance(sink.sink, KeyedSink) else set()
    found: dict[str, str] = {}
    for key in keys:
        called = [field.name for field in rows.schema.fields if field.metadata.get(_KEY) == key]
        if not called:
            raise PipelineDefinitionError(
                f"{what} lacks {key!r}, a column of the operator's key, as it is in the state: without it, nothing "
                "says which row of the table a change belongs to. Keep the column, or rename it; give what is "
                "computed of it another name."
            )
        found[key] = next((name for name in (*(n for n in called if n in wanted), key) if name in called), called[0])
    if wanted and set(found.values()) != wanted:
        raise PipelineDefinitionError(
            f"{what} has the key {', '.join(found.values())}, and the sink has {', '.join(sorted(wanted))}: rows would "
            "take each other's place. Give the sink that key."
        )
    return found
