"""Replayable input in pieces that arrive over time: a log read by offset,
or a directory whose files come in any order."""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from simulator.scheduler import Violation
from tidegate.ports import CheckpointStorage, ReadSince, Segment, SourceContext
from tidegate.protocol.records import HandleKind, Pending, Snapshot, StateHandle

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

    def arrive(self, split: int) -> None:
        """Some piece comes in."""
        raise NotImplementedError

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> set[int]:
        """What a recorded position says was read, for the observer."""
        raise NotImplementedError

    def rows(self, segment: Segment) -> list[Row]:
        return [row for piece in segment.reference["pieces"] for row in self.pieces[segment.split][piece]]

    def segment(self, split: int, pieces: Sequence[int]) -> Segment | None:
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
        before, now = self._known(restored, storage), self._known(taken, storage)
        return ReadSince(len(now - before), 10 * len(now - before), ())

    def _known(self, position: Snapshot | None, storage: CheckpointStorage) -> set[int]:
        """The pieces that were read, as the source itself finds out."""
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

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> set[int]:
        return set(range(_offset(snapshot)))

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

    def _known(self, position: Snapshot | None, storage: CheckpointStorage) -> set[int]:
        return set(range(_offset(position)))


class DirectorySource(SimulatedSource):
    """Files that arrive late and in any order: the position is a list of manifests on checkpoint storage."""

    def arrive(self, split: int) -> None:
        self.arrived[split].append(self.world.random.choice(self.missing(split)))

    def pieces_read(self, split: int, snapshot: Snapshot, files: Mapping[str, bytes]) -> set[int]:
        return {piece for handle in snapshot.handles for piece in json.loads(files[handle.path])}

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        self.world.point(f"lists {self.name}/{split}")
        before = () if restored is None else restored.handles
        known = self._known(restored, context.storage)
        fresh = sorted(set(self.arrived[split]) - known)[: self.limit]
        read = len(known) + len(fresh)
        position, finished = {"files": read}, self.has_read_all(split, read)
        if not fresh:
            return None, Snapshot(before, position, finished)
        content = json.dumps(fresh).encode()
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
        added = [handle for handle in taken.handles if handle.path not in before]
        return self.segment(split, [piece for handle in added for piece in json.loads(storage.read(handle.path))])

    def _known(self, position: Snapshot | None, storage: CheckpointStorage) -> set[int]:
        handles = () if position is None else position.handles
        return {piece for handle in handles for piece in json.loads(storage.read(handle.path))}


def _offset(snapshot: Snapshot | None) -> int:
    return 0 if snapshot is None or snapshot.position is None else int(snapshot.position["offset"])
