"""What a subtask stages for a sink that shows what lasts, whichever way a run has its jobs done."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from simulator.expiring import alive, plain
from simulator.sources import Row
from simulator.upserting import stage_upserts, upserts
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.reports import Report
from tidegate.dataflow.staging import Had
from tidegate.pipeline.sink_inputs import takes_upserts
from tidegate.pipeline.vertices import KeyedVertex, SinkVertex
from tidegate.protocol.facts.records import StateHandle, SubtaskId


class Stages(Protocol):
    """The jobs of a run: they stage rows of a sink, and read a subtask's state back."""

    def stage_rows(
        self, sink: SinkVertex, plan: ExecutionPlan, index: int, rows: Sequence[Row], horizon: int | None = None
    ) -> Report: ...

    def state(self, runs: Sequence[StateHandle], index: int) -> Mapping[int, int]: ...


def stage_lasting(
    jobs: Stages,
    sink: SinkVertex,
    vertex: KeyedVertex,
    plan: ExecutionPlan,
    index: int,
    state: Mapping[int, int],
    horizon: int | None,
) -> Report:
    """All of it, or how it differs from what the sink has."""
    if not takes_upserts(vertex, sink):
        return jobs.stage_rows(sink, plan, index, sorted(state.items()), horizon)
    staging = plan.staging(sink, vertex)

    def of(had: Had | None) -> Mapping[int, int] | None:
        return None if had is None else plain(vertex.ttl, alive(vertex.ttl, jobs.state(had.runs, index), had.horizon))

    before, base = of(staging.had.get(index)), of(staging.base.get(index))
    subtask, files = SubtaskId(sink.operator_id, index), upserts(before, state, base or {})
    return stage_upserts(subtask, files, lambda rows: jobs.stage_rows(sink, plan, index, rows), horizon)
