"""A topic in memory whose retention deletes what was not read. Rows are numbers."""

from collections.abc import Mapping
from typing import Any

from worlds import SplitSource

from tidegate.ports import Skipped
from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.protocol.recovery.skipping import LostRows


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
