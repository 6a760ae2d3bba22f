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

    def joined(self, other: "Report") -> "Report":
        """The same subtask's, of two parts of its work."""
        names = {**self.metrics, **other.metrics}
        metrics = {name: self.metrics.get(name, 0) + other.metrics.get(name, 0) for name in names}
        return Report(self.operator_id, self.subtask_index, (*self.handles, *other.handles), metrics)
