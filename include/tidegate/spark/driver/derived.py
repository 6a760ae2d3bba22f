"""The rows that a sink shows of an operator's state, with columns that transforms derive from them.

The transforms must turn each row into one row or none, so that a table has the keys of the state. Spark's analysis
shows this without a job: by the nodes of its plan, and by a mark in the metadata of the key's columns, which travels
with a column as long as it is only selected or renamed.
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

#: Spark's nodes in the words of its API.
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
    """Rows with their derived columns. `keys` maps the columns of the state's key to their present names."""

    rows: DataFrame
    keys: Mapping[str, str]


def derived_rows(streams: Streams, sink: SinkVertex, layout: StateLayout, state: DataFrame) -> Derived:
    """Return the rows of state after the transforms. Raise `PipelineDefinitionError` if a table of current rows cannot
    have them."""
    rows = streams.transformed(sink.input, state.select(*_with_marks(state, layout.key_names)))
    what = f"The result of the transforms between {sink.input.origin!r} and {streams.where(sink)}"
    streams.require_deterministic(what, rows)
    others = not_row_wise(state, rows)
    if found := sorted({_MEANT[node] for node in others if node in _MEANT} or others):
        raise PipelineDefinitionError(
            f"{what} is not computed row by row, because of {', '.join(found)}. The table has a row for each key of "
            "the state, and receives only changed rows, so each of them must follow from its row of state. Use select, "
            "withColumn, a rename or where. Let an operator do the rest, in front of it or behind "
            "it, such as key_by(…).aggregate(…), or let the sink append."
        )
    return Derived(rows, _keys(what, sink, layout.key_names, rows))


def check_derived(streams: Streams, sink: SinkVertex, vertex: KeyedVertex) -> None:
    """Check the transforms without rows. Raise `PipelineDefinitionError`."""
    layout = streams.layout(vertex)
    derived_rows(streams, sink, layout, streams.empty(layout.rows))


@dataclass(frozen=True, slots=True)
class DerivedStaging:
    """The staging of a sink's rows, derived from the state in `specs`."""

    streams: Streams
    sink: SinkVertex
    staging: Staging
    layout: StateLayout
    specs: Mapping[int, SubtaskSpec]

    def run(self, at_once: int, emit: Emit) -> None:
        """Run a Spark job for each `at_once` subtasks, so that it takes no more slots of the cluster."""
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
                f"{what} lacks {key!r}, a column of the operator's key, unchanged from the state. Without it, nothing "
                "tells which row of the table a change belongs to. Keep the column, or rename it; give columns "
                "computed from it another name."
            )
        found[key] = next((name for name in (*(n for n in called if n in wanted), key) if name in called), called[0])
    if wanted and set(found.values()) != wanted:
        raise PipelineDefinitionError(
            f"{what} has the key {', '.join(found.values())}, but the sink has {', '.join(sorted(wanted))}: rows would "
            "overwrite one another. Give the sink that key."
        )
    return found
