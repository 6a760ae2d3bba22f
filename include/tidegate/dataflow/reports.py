"""The reports of a job about its subtasks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.protocol.facts.records import StateHandle, SubtaskId

#: A metric in addition to the fields of `SubtaskMetrics`: the number of rows that no window took.
ROWS_LATE = "rows_late"


@dataclass(frozen=True, slots=True)
class Report:
    """The files that one execution wrote for a subtask of one operator or sink. `metrics` are fields of
    `SubtaskMetrics`, and `ROWS_LATE`. `mark` describes the state that a sink of upserts has from here on, by fields of
    `SinkMark`."""

    operator_id: str
    subtask_index: int
    handles: tuple[StateHandle, ...]
    metrics: Mapping[str, int]
    mark: Mapping[str, Any] | None = None


def joined(reports: Iterable[Report]) -> list[Report]:
    """Merge reports about parts of a subtask's work into one report a subtask."""
    result: dict[SubtaskId, Report] = {}
    for report in reports:
        subtask = SubtaskId(report.operator_id, report.subtask_index)
        result[subtask] = _both(result[subtask], report) if subtask in result else report
    return list(result.values())


def _both(one: Report, other: Report) -> Report:
    names = {**one.metrics, **other.metrics}
    metrics = {name: one.metrics.get(name, 0) + other.metrics.get(name, 0) for name in names}
    return replace(one, handles=(*one.handles, *other.handles), metrics=metrics)
