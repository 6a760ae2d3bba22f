"""What a job reports about the subtasks it ran."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.protocol.facts.records import StateHandle, SubtaskId

#: Beside the fields of `SubtaskMetrics`: rows that no window took.
ROWS_LATE = "rows_late"


@dataclass(frozen=True, slots=True)
class Report:
    """What one execution wrote for a subtask of one operator or sink. `metrics` are fields of `SubtaskMetrics`, and
    `ROWS_LATE`. `mark` is what a sink of upserts has from here on, by fields of `SinkMark`."""

    operator_id: str
    subtask_index: int
    handles: tuple[StateHandle, ...]
    metrics: Mapping[str, int]
    mark: Mapping[str, Any] | None = None


def joined(reports: Iterable[Report]) -> list[Report]:
    """One report a subtask, of several that are each about a part of its work."""
    result: dict[SubtaskId, Report] = {}
    for report in reports:
        subtask = SubtaskId(report.operator_id, report.subtask_index)
        result[subtask] = _both(result[subtask], report) if subtask in result else report
    return list(result.values())


def _both(one: Report, other: Report) -> Report:
    names = {**one.metrics, **other.metrics}
    metrics = {name: one.metrics.get(name, 0) + other.metrics.get(name, 0) for name in names}
    return replace(one, handles=(*one.handles, *other.handles), metrics=metrics)
