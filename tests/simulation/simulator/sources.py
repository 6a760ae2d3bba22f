"""Replayable input in pieces that arrive over time: a log read by offset,
or a directory whose files come in any order."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from records import T0

from simulator.scheduler import Violation
from tidegate.ports import CheckpointStorage, PieceVersion, ReadPiece, ReadSince, Segment, SourceContext
from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.protocol.facts.records import HandleKind, Pending, Snapshot, StateHandle, SubtaskId

if TYPE_CHECKING:
    from simulator.world import World

Row = tuple[int, int]  # key and value


class SimulatedSource:
    """`ports.RereadingSource`. Each split has numbered pieces of rows; `arrived` lists the numbers in the order they
    came. A split of a bounded one has finished when it has read all that will ever come."""

    schema = "k bigint, v bigint"

    def __init__(self, world: "World", name: str, pieces: Sequence[Sequence[Sequence[Row]]], limit: int | None) -> None:
        self.bounded = False
        self.world = world
        self.name = name
        self.pieces = pieces
        self.limit = limit
        self.arrived: list[list[int]] = [[] for _ in pieces]
        self.left: dict[int, Pending] = {}  # by the last poll of each split

    def num_splits(self) -> int:
        return len(self.pieces)

    def describe(self) -> dict[str, Any]:
        return {"type": type(self).__name__}

    def missing(self, split: int) -> list[int]:
        """Pieces that have not arrived yet."""
        return sorted(set(range(len(self.pieces[split]))) - set(self.arrived[split]))

    def has_read_all(self, split: int, number: int) -> bool:
        """Whether nothing follows the first `number` pieces of a split."""
        return self.bounded and number == len(self.pieces[split])

    def has_all(self, split: int, read: Mapping[int, int]) -> bool:
        """Whether nothing that will ever come is missing in what was read."""
        return len(read) == len(self.pieces[split])

    def arrive(self, split: int) -> None:
        """Some piece comes in."""
        raise NotImplementedError

    def pieces_in(
        self, snapshots: Mapping[SubtaskId, Snapshot], files: Mapping[str, bytes]
    ) -> dict[SubtaskId, dict[int, int]]:
        """What the recorded positions of all splits say was read, for the observer."""
        mine = [subtask for subtask in sorted(snapshots) if subtask.operator_id == self.name]
        return {subtask: self.pieces_read(subtask.subtask_index, snapshots[subtask], files) for subtask in mine}

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> dict[int, int]:
        """What a recorded position says was read, and in which version, for the observer."""
        raise NotImplementedError

    def rows_of(self, split: int, piece: int, version: int) -> Sequence[Row]:
        return self.pieces[split][piece]

    def rows(self, segment: Segment) -> list[Row]:
        return [row for piece in segment.reference["pieces"] for row in self.pieces[segment.split][piece]]

    def segment(self, split: int, pieces: Sequence[Any]) -> Segment | None:
        return Segment(split, {"source": self.name, "pieces": list(pieces)}, 10 * len(pieces)) if pieces else None

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        raise NotImplementedError

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        raise NotImplementedError

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: CheckpointStorage
    ) -> ReadSince:
        raise NotImplementedError

    def read(self, spark: Any, segments: Sequence[Segment], output: str = "rows") -> Any:
        raise Violation("there is no Spark here")

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> None:
        return None


class LogSource(SimulatedSource):
    """Read by offset: the position is a number. It says how far behind it is."""

    def pending(self, split: int) -> Pending | None:
        return self.left.get(split)

    def arrive(self, split: int) -> None:
        self.arrived[split].append(len(self.arrived[split]))

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> dict[int, int]:
        return dict.fromkeys(range(_offset(snapshot)), 0)

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        self.world.point(f"polls {self.name}/{split}")
        begin, end = _offset(restored), len(self.arrived[split])
        end = end if self.limit is None else min(end, begin + self.limit)
        self.left[split] = Pending(len(self.arrived[split]) - end, "offsets")
        return self.segment(split, range(begin, end)), Snapshot((), {"offset": end}, self.has_read_all(split, end))

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        self.world.point(f"replays {self.name}/{split}")
        return self.segment(split, range(_offset(restored), _offset(taken)))

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: CheckpointStorage
    ) -> ReadSince:
        number = _offset(taken) - _offset(restored)
        return ReadSince(number, 10 * number, ())


class DirectorySource(SimulatedSource):
    """Files that arrive late and in any order: the position is a list of manifests on checkpoint storage. They may be
    corrected: by split and number, `versions` has their rows each time, and `present` says which are there now."""

    def __init__(self, *drawn: Any) -> None:
        super().__init__(*drawn)
        self.versions: dict[tuple[int, int], list[list[Row]]] = {}
        self.present: dict[tuple[int, int], int] = {}

    def arrive(self, split: int) -> None:
        self.arrived[split].append(self.world.random.choice(self.missing(split)))

    def correct(self, split: int, piece: int) -> None:
        """With other rows of other keys at the same event times."""
        known = self.versions.setdefault((split, piece), [list(self.pieces[split][piece])])
        rows = [((key + 1) % 12, value + 4096 * len(known)) for key, value in known[0]]
        self.present[split, piece] = len(known)
        known.append(rows + rows[:1])

    def version(self, split: int, piece: int) -> int:
        return self.present.get((split, piece), 0)

    def rows_of(self, split: int, piece: int, version: int) -> Sequence[Row]:
        known = self.versions.get((split, piece))
        return self.pieces[split][piece] if known is None else known[version]

    def rows(self, segment: Segment) -> list[Row]:
        read = [(piece, version) for piece, version in segment.reference["pieces"]]
        self._require_same(segment.split, read)
        return [row for piece, version in read for row in self.rows_of(segment.split, piece, version)]

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> dict[int, int]:
        return {piece: version for h in snapshot.handles for _, piece, version in json.loads(files[h.path])}

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        self.world.point(f"lists {self.name}/{split}")
        before = () if restored is None else restored.handles
        read = self._read(before, context.storage)
        self._require_same(split, [(piece, version) for _, piece, version in read])
        known = {piece for _, piece, _ in read}
        fresh = [(piece, self.version(split, piece)) for piece in sorted(set(self.arrived[split]) - known)]
        fresh = fresh[: self.limit]
        number = len(known) + len(fresh)
        position, finished = {"files": number}, self.has_read_all(split, number)
        if not fresh:
            return None, Snapshot(before, position, finished)
        content = json.dumps([(split, *each) for each in fresh]).encode()
        path = f"{context.prefix}.json"
        context.storage.write(path, content)
        checksum = sha256(content).hexdigest()
        manifest = StateHandle(path, HandleKind.POSITION, len(fresh), len(content), checksum, context.checkpoint_id)
        return self.segment(split, fresh), Snapshot((*before, manifest), position, finished)

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        self.world.point(f"replays {self.name}/{split}")
        before = set() if restored is None else {handle.path for handle in restored.handles}
        added = self._read([handle for handle in taken.handles if handle.path not in before], storage)
        return self.segment(split, [(piece, version) for _, piece, version in added])

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: CheckpointStorage
    ) -> ReadSince:
        before, now = (self._read(() if each is None else each.handles, storage) for each in (restored, taken))
        since = [each for each in now if each not in before]
        missing = [self.name_for(split, piece) for _, piece, version in since if self.version(split, piece) != version]
        return ReadSince(len(since), 10 * len(since), missing)

    def name_for(self, split: int, piece: int) -> str:
        return f"{split}-{piece}"

    def name_of(self, given: str) -> str:
        """See `ports.ReplaceableSource`."""
        return given

    def find_read(
        self, names: Sequence[str], taken: Sequence[Snapshot], storage: CheckpointStorage
    ) -> dict[str, ReadPiece]:
        """See `ports.ReplaceableSource`."""
        found = {}
        for handle in (handle for snapshot in taken for handle in snapshot.handles):
            for split, piece, version in self._read([handle], storage):
                if (name := self.name_for(split, piece)) in names:
                    now = self.version(split, piece)
                    then = self._described(version)
                    found[name] = ReadPiece(name, handle.created_by, then, self._described(now), now == version)
        return found

    def _described(self, version: int) -> PieceVersion:
        return PieceVersion(10, T0 + timedelta(seconds=version), str(version))

    def _require_same(self, split: int, read: Sequence[tuple[int, int]]) -> None:
        """Raises `SourceChangedError`, as a source of files does."""
        if changed := [piece for piece, version in read if self.version(split, piece) != version]:
            names = ", ".join(self.name_for(split, piece) for piece in changed)
            raise SourceChangedError(f"{names} of {self.name} has changed since it was read")

    def _read(self, handles: Sequence[StateHandle], storage: CheckpointStorage) -> list[tuple[int, int, int]]:
        """Split, number and version of each piece in some manifests."""
        return [tuple(each) for handle in handles for each in json.loads(storage.read(handle.path))]


def _offset(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None or snapshot.position is None else int(snapshot.position["offset"])
