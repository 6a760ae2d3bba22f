"""What a job reports about the subtasks it ran."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.protocol.records import StateHandle


@dataclass(frozen=True, slots=True)
class Report:
    """What one execution wrote for a subtask of one operator or sink. `metrics` are fields of `SubtaskMetrics`."""

    operator_id: str
    subtask_index: int
    handles: tuple[StateHandle, ...]
    metrics: Mapping[str, int]
