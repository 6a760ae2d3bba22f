"""The acknowledgements of a chain's subtasks: the snapshots that follow from the reports of their execution."""

from collections.abc import Iterable, Mapping, Sequence

from tidegate.dataflow.elements import Exchange
from tidegate.dataflow.execution_plan import ExecutionPlan
from tidegate.dataflow.operator_chains import Execution
from tidegate.dataflow.reports import ROWS_LATE, Report
from tidegate.pipeline.sink_inputs import takes_upserts
from tidegate.pipeline.vertices import KeyedVertex
from tidegate.ports import SinkInput
from tidegate.protocol.facts.records import (
    Acknowledgement,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
)
from tidegate.protocol.steps.sink_marks import SinkMark
from tidegate.protocol.steps.watermarks import with_watermarks


def acknowledgements(
    plan: ExecutionPlan, execution: Execution, indexes: Iterable[int], start_delay: int
) -> list[Acknowledgement]:
    """Return the acknowledgements of the operator and its sinks, for subtasks whose reports are complete. Without a
    report, handles carry over."""
    result = []
    marks = _marks(plan, execution)
    for index in indexes:
        execution.acknowledged.add(index)
        for operator_id in execution.chain.operator_ids:
            subtask = SubtaskId(operator_id, index)
            if subtask in plan.attempts:
                mark = marks.get(subtask)
                position = None if mark is None else mark.position()
                snapshot = Snapshot(_handles(plan, execution, subtask), position, finished=execution.is_last)
                if subtask == SubtaskId(execution.chain.vertex.operator_id, 0):
                    marks_ = (execution.watermarks, execution.all_late, execution.recorded_gone)
                    snapshot = with_watermarks(snapshot, *marks_)
                metrics = _metrics(execution, subtask, start_delay)
                result.append(Acknowledgement(subtask, plan.attempts[subtask], snapshot, metrics))
    return result


def _marks(plan: ExecutionPlan, execution: Execution) -> dict[SubtaskId, SinkMark]:
    """Return the marks of the sinks of upserts."""
    vertex = execution.chain.vertex
    return {
        SubtaskId(sink.operator_id, index): mark
        for sink in execution.chain.sinks
        if takes_upserts(vertex, sink)
        for index, mark in plan.marked(sink, vertex, execution.reports).items()
    }


def exchange_of(execution: Execution, acknowledged: Mapping[SubtaskId, Snapshot], parallelism: int) -> Exchange:
    """Return the data that the chain's step or operator sends downstream: new files, those that an earlier attempt
    acknowledged, and its watermark."""
    handles: list[StateHandle] = []
    for index in range(parallelism):
        subtask = SubtaskId(execution.chain.vertex.operator_id, index)
        before = acknowledged.get(subtask)
        report = execution.reports.get(subtask)
        handles_of_subtask: Sequence[StateHandle] = () if report is None else report.handles
        handles_of_subtask = handles_of_subtask if before is None else before.handles
        handles += [handle for handle in handles_of_subtask if handle.kind is HandleKind.EXCHANGE]
    return Exchange(tuple(handles), execution.watermark)


def _handles(plan: ExecutionPlan, execution: Execution, subtask: SubtaskId) -> tuple[StateHandle, ...]:
    chain, report = execution.chain, execution.reports.get(subtask)
    new = () if report is None else report.handles
    if subtask.operator_id == chain.vertex.operator_id and isinstance(chain.vertex, KeyedVertex):
        return plan.carried(subtask, HandleKind.RUN) + new
    current = [
        sink for sink in chain.sinks if sink.operator_id == subtask.operator_id and sink.sink.input is SinkInput.CURRENT
    ]
    return plan.staged_before(current[0], subtask.subtask_index) if current and report is None else new


def _metrics(execution: Execution, subtask: SubtaskId, start_delay: int) -> SubtaskMetrics:
    """Return the metrics of a subtask. Subtasks share one gate; its metrics count with the first one, which records
    in-flight data."""
    assert execution.aligned is not None
    report: Report | None = execution.reports.get(subtask)
    first = subtask == SubtaskId(execution.chain.vertex.operator_id, 0)
    nothing = {"sync_duration": 0, "async_duration": 0, "rows_in": 0, "rows_out": 0}
    return SubtaskMetrics(
        start_delay=start_delay,
        alignment_duration=execution.aligned.alignment,
        processed_bytes=execution.aligned.processed_bytes if first else 0,
        persisted_bytes=execution.aligned.persisted_bytes if first else 0,
        **(nothing if report is None else {name: n for name, n in report.metrics.items() if name != ROWS_LATE}),
    )
