"""A replayable source of rows that a test lists, in as many splits as it likes;
a split that is closed comes to its end."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tidegate.ports import CheckpointStorage, Segment, SourceContext
from tidegate.protocol.facts.records import Snapshot


@dataclass(eq=False)
class Listed:
    """A poll takes `step` rows of a split, a byte each."""

    schema: str
    rows: list[list[tuple[Any, ...]]] = field(default_factory=lambda: [[]])
    step: int = 3
    closed: set[int] = field(default_factory=set)
    polls: int = 0

    def put(self, split: int, *rows: tuple[Any, ...]) -> None:
        self.rows[split] += rows

    def all(self) -> list[tuple[Any, ...]]:
        return [row for split in self.rows for row in split]

    def num_splits(self) -> int:
        return len(self.rows)

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        self.polls += 1
        first = self._offset(restored)
        end = min(first + self.step, len(self.rows[split]))
        finished = split in self.closed and end == len(self.rows[split])
        return self._segment(split, first, end), Snapshot((), {"offset": end}, finished)

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        return polled is not None and polled.reference["end"] < len(self.rows[split])

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        return self._segment(split, self._offset(restored), self._offset(taken))

    def read(self, spark: Any, segments: Sequence[Segment], output: str = "rows") -> Any:
        rows = [self.rows[s.split][at] for s in segments for at in range(s.reference["first"], s.reference["end"])]
        names = [column.split()[0] for column in self.schema.split(", ")]
        types = [column.split()[1] for column in self.schema.split(", ")]
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows or [(None,) * len(names)])
        columns = [f"cast({name} as {type_}) as {name}" for name, type_ in zip(names, types, strict=True)]
        frame = spark.sql(f"select * from values {values} as t({', '.join(names)})").selectExpr(*columns)  # noqa: S608
        return frame if rows else frame.where("false")

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"type": "Listed", "splits": len(self.rows)}

    def _offset(self, snapshot: Snapshot | None) -> int:
        position = snapshot.position if snapshot is not None else None
        return int(position["offset"]) if position else 0

    def _segment(self, split: int, first: int, end: int) -> Segment | None:
        return Segment(split, {"first": first, "end": end}, end - first) if first < end else None


def _literal(value: Any) -> str:
    return "null" if value is None else repr(value)
