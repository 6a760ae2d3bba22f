"""A topic in memory whose retention deletes what was not read. Rows are numbers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pasts import OP, Past
from worlds import CapturingRegion, SplitSource

from tidegate.ports import CheckpointStore, Skipped
from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.protocol.facts.records import Acknowledgement, Snapshot, SubtaskId
from tidegate.protocol.recovery.skipping import LostRows
from tidegate.protocol.steps.snapshot import SnapshotTask

SPLITS = (SubtaskId("src", 0), SubtaskId("src", 1))


class LosingSource(SplitSource):
    """`first` is what is left of each partition, `ends` how much has arrived. Split i reads partition i."""

    def __init__(self, splits: int = 2) -> None:
        super().__init__(splits)
        self.first, self.ends = [0] * splits, [0] * splits

    def poll(self, position: Mapping[str, Any] | None, split: int) -> dict[str, Any]:
        """Where a split stands after a poll, as its snapshot says."""
        start = self.first[split] if position is None else position["to"]
        if start < self.first[split]:
            raise SourceChangedError(f"Partition {split} has lost {start} to {self.first[split] - 1}.")
        return {"part": split, "from": start, "to": self.ends[split]}

    def skip_lost(self, position: Mapping[str, Any]) -> Skipped | None:
        part, start = position["part"], position["to"]
        first = self.first[part]
        if start >= first:
            return None
        return Skipped([LostRows(str(part), start, first - 1, first)], {"from": first, "to": first})

    def cut_lost(self, reference: Mapping[str, Any]) -> Skipped | None:
        part, start, end = reference["part"], reference["from"], reference["to"]
        first = min(self.first[part], end)
        if start >= first:
            return None
        rest = None if first == end else {**reference, "from": first}
        return Skipped([LostRows(str(part), start, first - 1, first)], rest)


class Reading(Past):
    """What checkpoints have read is in `read`, by checkpoint and partition. `flight` is in flight to the operator."""

    flight: Any = ()
    restored: Any = ()

    def __init__(self, store: CheckpointStore, **config: object) -> None:
        super().__init__(store, **{"retained": 9} | config)
        self.topic = self.coordinator.graph.sources[0].source
        self.read: dict[tuple[int, int], range] = {}

    @classmethod
    def that_has_lost(cls, store: CheckpointStore, monkeypatch: pytest.MonkeyPatch) -> "Reading":
        """Checkpoint 1 has read three rows of each partition; then six more came, and two of partition 0 are lost."""
        monkeypatch.setattr("worlds.SplitSource", LosingSource)
        world = cls(store)
        world.topic.ends = [3, 3]
        world.take("r1")
        world.topic.ends, world.topic.first = [9, 9], [5, 0]
        return world

    def snapshot(self, checkpoint_id: int) -> None:
        def report(task: SnapshotTask) -> None:
            self.task = task
            acks = [
                Acknowledgement(key, attempt, self.taken(task, key, attempt)) for key, attempt in task.attempts.items()
            ]
            self.coordinator.record_acknowledgements(checkpoint_id, acks)

        self.coordinator.snapshot(checkpoint_id, CapturingRegion(report))

    def taken(self, task: SnapshotTask, key: SubtaskId, attempt: int) -> Snapshot:
        known = task.restored.get(key, Snapshot())
        if key in SPLITS:
            position = self.topic.poll(known.position, key.subtask_index)
            self.read[task.checkpoint_id, position["part"]] = range(position["from"], position["to"])
            return Snapshot((), {"event_time": 1, **position})
        self.restored = known.handles if key == OP else self.restored
        snapshot = self.made(task.checkpoint_id, key, attempt)
        return replace(snapshot, position={"in_flight": list(self.flight)}) if key == OP and self.flight else snapshot
