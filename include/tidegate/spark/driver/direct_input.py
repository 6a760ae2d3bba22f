"""Input that subtasks read directly, without Spark SQL: a small batch straight from a source, for a plain aggregate;
and the changes by an operator of a continuous run, for a table of its rows.

Spark's reader, its exchange of rows and their way through Java cost more than the work on a few megabytes. Here each
Spark task reads the whole batch and keeps the rows of its own subtasks.
"""

from dataclasses import dataclass

import pyarrow as pa

from tidegate.dataflow.elements import Exchange
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.pipeline.graph import Graph
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.ports import ArrowReader, Segment
from tidegate.protocol.facts.keygroups import hashes_of, key_groups_of
from tidegate.spark.driver.columns import are_alike, arrow_schema
from tidegate.spark.driver.run_job import SHORTCUT
from tidegate.spark.driver.state_location import StateLocation
from tidegate.spark.driver.streams import Streams
from tidegate.spark.executor.direct_rows import DirectPlan, DirectStagingPlan
from tidegate.spark.executor.partitions import KeyedPlan

#: Bytes below which dividing the subtasks among Spark tasks takes longer than running all of them in one.
SMALL = 1 << 20

#: Bytes that all Spark tasks together may read of a batch, so that large input is not read several times.
_READ_AGAIN = 256 << 20


@dataclass(frozen=True, slots=True)
class DirectInput:
    """Direct input of a Spark task: `columns` of a batch of `size` bytes."""

    reader: ArrowReader
    columns: pa.Schema
    keys: tuple[str, ...]
    size: int

    def plan(self, keyed: KeyedPlan) -> DirectPlan:
        """Return the plan: one Spark task for all subtasks if there is little to read and to write, else up to one for
        each."""
        shares = _shares(sorted(keyed.specs), self.size + _written_anew(keyed), len(keyed.specs))
        return DirectPlan(keyed, self.reader, self.columns, self.keys, shares)


def direct_input(streams: Streams, execution: Execution, vertex: KeyedVertex, subtasks: int) -> DirectInput | None:
    """Return the direct input for this number of subtasks; None if Spark must read it."""
    size = segment_bytes(execution)
    if (
        not vertex.aggregates
        or vertex.inputs[0].transforms
        or not size
        or size * subtasks > _READ_AGAIN
        or not SHORTCUT.is_taken()
    ):
        return None
    columns = streams.aggregate_input(vertex)
    if not are_alike(columns):
        return None
    reader = streams.arrow_reader(vertex.inputs[0], execution.arrived)
    return None if reader is None else DirectInput(reader, arrow_schema(columns), tuple(vertex.key), size)


def direct_staging(
    graph: Graph,
    streams: Streams,
    location: StateLocation,
    execution: Execution,
    vertex: SinkVertex,
    plan: ExecutionPlan,
) -> DirectStagingPlan | None:
    """Return the plan for a sink that reads an operator's changes directly; None for other or too large input."""
    pipeline, origin = graph.pipeline, streams.changed_by(vertex.input)
    arrived = [data for data in execution.arrived.get(vertex.input.origin, ()) if isinstance(data, Exchange)]
    size = sum(data.bytes for data in arrived)
    if origin is None or not size or size * plan.slots > _READ_AGAIN or not SHORTCUT.is_taken():
        return None
    layout = streams.layout(origin)
    owned = {
        index: hashes_of(key_groups_of(index, pipeline.parallelism, pipeline.max_parallelism), pipeline.max_parallelism)
        for index in range(pipeline.parallelism)
    }
    return DirectStagingPlan(
        plan.staging(vertex),
        plan.checkpoint_id,
        tuple(handle for data in arrived for handle in data.handles),
        location.storage_url,
        layout.rows,
        tuple(layout.key_names),
        owned,
        len(arrived) > 1,
        _shares(list(owned), size, plan.slots),
    )


def _written_anew(keyed: KeyedPlan) -> int:
    """Return the bytes of the state that a table of current rows is written from."""
    if not any(staging.current for staging in keyed.stagings):
        return 0
    return sum(run.bytes for spec in keyed.specs.values() for run in spec.runs)


def _shares(subtasks: list[int], size: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Return the subtasks of each Spark task."""
    tasks = min(len(subtasks), most, -(-size // SMALL))
    return tuple(tuple(subtasks[at::tasks]) for at in range(tasks))


def segment_bytes(execution: Execution) -> int | None:
    """Return the bytes that arrived, if all of them came straight from sources; else None. Data from another operator
    must stay one Spark task per file."""
    arrived = [data for channel in execution.arrived.values() for data in channel]
    straight = all(isinstance(data, Segment) for data in arrived)
    return sum(data.bytes for data in arrived) if straight else None
