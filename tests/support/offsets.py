"""A replayable source in the manner of a log: numbered rows in each split, of which a poll takes a few."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.ports import CheckpointStorage, Segment, SourceContext
from tidegate.protocol.facts.records import Snapshot


@dataclass(eq=False)
class Offsets:
    """Split i holds the rows (i, 0) to (i, `ends[i]` - 1), and `steps[i]` of them are taken at a time, a byte each."""

    ends: list[int]
    steps: list[int]
    polled: dict[int, int] = field(default_factory=dict)
    schema: str = "split bigint, at bigint"

    def num_splits(self) -> int:
        return len(self.ends)

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        first = self._offset(restored)
        end = min(first + self.steps[split], self.ends[split])
        self.polled[split] = end
        return self._segment(split, first, end), Snapshot((), {"offset": end})

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        return self._segment(split, self._offset(restored), self._offset(taken))

    def read(self, spark: Any, segments: Sequence[Segment], output: str = "rows") -> Any:
        frame = spark.range(0).selectExpr("id as split", "id as at")
        for segment in segments:
            first, end = segment.reference["first"], segment.reference["end"]
            frame = frame.unionAll(spark.range(first, end).selectExpr(f"{segment.split}L as split", "id as at"))
        return frame

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"type": "Offsets", "splits": len(self.ends)}

    def _offset(self, snapshot: Snapshot | None) -> int:
        position = snapshot.position if snapshot is not None else None
        return int(position["offset"]) if position else 0

    def _segment(self, split: int, first: int, end: int) -> Segment | None:
        return Segment(split, {"first": first, "end": end}, end - first) if first < end else None
