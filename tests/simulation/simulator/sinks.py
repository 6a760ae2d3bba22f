"""A two-phase output in memory: staged while a checkpoint is taken, visible once it is told that it completed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simulator.scheduler import Violation
from simulator.sources import Row
from tidegate.ports import DeliveryGuarantee, SinkInput
from tidegate.protocol.errors import SinkError
from tidegate.protocol.records import HandleKind, StateHandle

if TYPE_CHECKING:
    from simulator.world import World


class SimulatedSink:
    """`ports.Sink`. `visible` is what readers see: the rows of every checkpoint, or of `CURRENT` rows the last one's."""

    guarantee = DeliveryGuarantee.EXACTLY_ONCE

    def __init__(self, world: "World", name: str, input: SinkInput) -> None:
        self.world = world
        self.name = name
        self.input = input
        self.staged: dict[str, tuple[int, tuple[Row, ...]]] = {}  # path -> checkpoint, rows
        self.visible: dict[int, dict[str, tuple[Row, ...]]] = {}

    def stage(self, checkpoint_id: int, unique: str, rows: Sequence[Row]) -> StateHandle:
        """Write rows where no reader sees them, from a subtask."""
        path = f"_staging/chk-{checkpoint_id}/{unique}"
        self.world.point(f"stages {path} in {self.name}")
        self.staged[path] = (checkpoint_id, tuple(rows))
        self.world.point(f"has staged {path}")
        return StateHandle(path, HandleKind.STAGED, len(rows), 8 * len(rows), "0" * 64, checkpoint_id)

    def rows(self) -> list[Row]:
        """What readers see."""
        return sorted(row for files in self.visible.values() for rows in files.values() for row in rows)

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
        self.world.point(f"commits chk-{checkpoint_id} to {self.name}")
        if self.world.strikes("sink_error"):
            raise SinkError("the disk is full")
        self.world.observer.tells(self, checkpoint_id, staged)
        overtaken = self.input is SinkInput.CURRENT and max(self.visible, default=0) > checkpoint_id
        if checkpoint_id not in self.visible and not overtaken:
            self._publish(checkpoint_id, staged)
        self.world.observer.told(self, checkpoint_id)
        self.world.point(f"has committed chk-{checkpoint_id} to {self.name}")

    def _publish(self, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
        if self.input is SinkInput.CURRENT:
            if staged:
                self.visible = {checkpoint_id: {handle.path: self._promised(handle.path) for handle in staged}}
        else:
            self.visible[checkpoint_id] = {handle.path: self._promised(handle.path) for handle in staged}
            for handle in staged:
                del self.staged[handle.path]

    def _promised(self, path: str) -> tuple[Row, ...]:
        if path not in self.staged:
            raise Violation(f"rows that were promised are gone from {self.name}: {path}")
        return self.staged[path][1]

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        self.world.point(f"lists what chk-{checkpoint_id} staged in {self.name}")
        return sorted(path for path, (created_by, _) in self.staged.items() if created_by == checkpoint_id)

    def discard(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.world.point(f"discards {path} of {self.name}")
            self.world.observer.deletes(f"sink:{self.name}-sink", path)
            self.staged.pop(path, None)

    def writer(self) -> Any:
        raise Violation("the region stages by itself")

    def read_staged(self, spark: Any, staged: Sequence[StateHandle]) -> Any:
        raise Violation("there is no Spark here")

    def describe(self) -> dict[str, Any]:
        return {"type": "SimulatedSink"}
