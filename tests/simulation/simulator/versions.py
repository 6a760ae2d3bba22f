"""A file that is delivered whole again and again, read by the real `Versions`: on a simulated directory and storage."""

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from simulator.scheduler import require
from simulator.sources import Row, SimulatedSource
from tidegate.ports import CheckpointStorage, Segment, SourceContext
from tidegate.protocol.facts.records import Snapshot
from tidegate.sources.listing import FileVersion
from tidegate.sources.snapshot_files import Versions

#: Chosen so that seeds which alone are known to notice a rare planted mistake draw the pipelines that they always drew.
_SALT = 29233
_NAME = "dim"
_GONE = 1 << 20  # beside the value of a row that was deleted


def is_versioned(seed: int, number: int) -> bool:
    """Whether a source has versions. Draws of its own, so that the rest stays as it was drawn."""
    return Random(f"versions {_SALT} {seed} {number}").random() < 0.06


class VersionsSource(Versions, SimulatedSource):
    """The pieces of its only split are versions. Each replaces the one before, and may never be read."""

    def __init__(self, *drawn: Any) -> None:
        SimulatedSource.__init__(self, *drawn)
        self.path = self.location = f"/{self.name}/{_NAME}"
        self.mode, self.follow_links, self.max_files_per_checkpoint = "snapshot", False, None
        self._file, self._min_age = _NAME, None
        self._pending, self._behind = {}, {}
        self.copies = 0
        self.read_from: dict[str, str | None] = {}  # by the checksum of a copy, that with which it was compared
        self.places: dict[str, int] = {}
        self.contents: dict[str, dict[str, int]] = {}

    def __post_init__(self) -> None:
        raise NotImplementedError

    def num_splits(self) -> int:
        return 1

    def describe(self) -> dict[str, Any]:
        return SimulatedSource.describe(self)

    def arrive(self, split: int) -> None:
        self.arrived[split].append(len(self.arrived[split]))

    # -- what `Versions` asks of its directory

    def _there(self, context: SourceContext | None) -> list[FileVersion]:
        number = len(self.arrived[0])
        return [FileVersion(_NAME, number, number * 10**9 + 1000)] if number else []

    def _place(self, name: str) -> Any:
        return self, name

    def current(self, paths: Sequence[str]) -> list[FileVersion | None]:
        return [*self._there(None)] or [None]

    def content(self, file: FileVersion) -> bytes | None:
        self.world.point(f"copies {self.name}")
        number = len(self.arrived[0])
        self.copies += 1  # each is another one, wherever its file is moved
        content = {"copy": self.copies, "rows": dict(self.pieces[0][number - 1])}
        return json.dumps(content).encode() if number == file.size else None

    # -- what it reads

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        self.world.point(f"looks at {self.name}")
        segment, snapshot = Versions.poll(self, split, restored, context)
        if segment is not None:
            *before, copy = (handle.checksum for handle in segment.files)
            self.read_from[copy] = before[0] if before else None
            self.places.setdefault(copy, len(self.places))
            self.contents[copy] = _rows(context.storage.read(segment.files[-1].path))
        return segment, snapshot

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        segment = Versions.replay(self, split, restored, taken, storage)
        if segment is None:
            return None
        reference = {**segment.reference, "source": self.name}
        return Segment(split, reference, segment.bytes, files=segment.files)

    def rows(self, segment: Segment) -> list[Row]:
        copies = [each[0] for name in ("before", "versions") for each in segment.reference[name]]
        contents = [_rows(self.world.storage.read(path)) for path in copies]
        return _changes(*([{}, *contents][-2:]))

    # -- for the observer

    def has_all(self, split: int, read: Mapping[int, int]) -> bool:
        """The latest version is the only one that must be read."""
        latest = dict(self.pieces[0][-1])
        copies = [copy for copy, place in self.places.items() if place in read]
        newest = [copy for copy in copies if copy not in {self.read_from[each] for each in copies}]
        return [self.contents[copy] for copy in newest] == [{str(key): value for key, value in latest.items()}]

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> dict[int, int]:
        require(all(handle.path in files for handle in snapshot.handles), f"a copy of {self.name} is gone")
        copy = snapshot.handles[-1].checksum if snapshot.handles else None
        read = {}
        while copy is not None:
            require(self.places[copy] not in read, f"{self.name} compares a version with itself")
            read[self.places[copy]] = 0
            copy = self.read_from[copy]
        return read

    def rows_of(self, split: int, piece: int, version: int) -> Sequence[Row]:
        copy = next(copy for copy, place in self.places.items() if place == piece)
        before = self.read_from[copy]
        return _changes(self.contents[before] if before else {}, self.contents[copy])


def _rows(content: bytes) -> dict[str, int]:
    rows: dict[str, int] = json.loads(content)["rows"]
    return rows


def _changes(before: Mapping[str, int], now: Mapping[str, int]) -> list[Row]:
    gone = [(int(key), before[key] + _GONE) for key in before.keys() - now.keys()]
    return sorted(gone + [(int(key), value) for key, value in now.items() if before.get(key) != value])
