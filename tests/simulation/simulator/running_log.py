"""The source of a simulated continuous run: a log of rows, of which some have arrived."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.ports import Segment, SourceContext
from tidegate.protocol.facts.records import Pending, Snapshot, SubtaskId


@dataclass(eq=False)
class Log:
    """A source: row i of a split is there once `arrived` is larger than i; the last one of a bounded log is its end."""

    name: str
    lengths: list[int]
    bounded: bool
    step: int
    arrived: list[int] = field(default_factory=list)
    left: dict[int, Pending] = field(default_factory=dict)  # by the last poll of each split
    schema = "k bigint, split bigint, at bigint"

    def num_splits(self) -> int:
        return len(self.lengths)

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        first = self.offset(restored)
        end = min(first + self.step, self.arrived[split])
        self.left[split] = Pending(self.arrived[split] - end, "offsets")
        reference = {"source": self.name, "first": first, "end": end}
        segment = Segment(split, reference, end - first) if first < end else None
        return segment, Snapshot((), {"offset": end}, self.bounded and end == self.lengths[split])

    def pending(self, split: int) -> Pending | None:
        return self.left.get(split)

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"type": "Log", "name": self.name}

    def arrive(self, split: int) -> None:
        self.arrived[split] += 1

    def arrive_all(self) -> None:
        self.arrived = list(self.lengths)

    def most_pending(self) -> int:
        return sum(self.arrived)

    def offsets(self, snapshots: Mapping[SubtaskId, Snapshot]) -> dict[SubtaskId, int]:
        """By split, the rows that checkpoints say were read."""
        return {key: self.offset(snapshot) for key, snapshot in snapshots.items() if key.operator_id == self.name}

    @staticmethod
    def offset(snapshot: Snapshot | None) -> int:
        return int(snapshot.position["offset"]) if snapshot is not None and snapshot.position else 0


def rows_of(segment: Segment) -> list[tuple[int, int]]:
    """The split and the number of each row."""
    if "rows" in segment.reference:
        return [(split, at) for split, at in segment.reference["rows"]]
    return [(segment.split, at) for at in range(segment.reference["first"], segment.reference["end"])]
