"""The state of a continuous region's subtasks between checkpoints: their runs, positions and files.

Micro-batches write below the region's own directory before any checkpoint is known. The checkpoint store owns a file
from the first acknowledgement that names it. Until then this region may delete it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tidegate.dataflow.elements import Exchange, InFlight
from tidegate.dataflow.reports import Report
from tidegate.ports import CheckpointStorage
from tidegate.protocol.facts.records import Acknowledgement, CompactedRun, HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.steps.restored_snapshots import apply_compactions


class LiveState:
    """The present snapshots of a region. `snapshots` are those that each subtask would acknowledge now; those of sinks
    are as of the latest completed checkpoint. `settled` are the subtasks that have acknowledged their end. Their runs
    stay as they are, because any of the pending checkpoints may complete first and then represents them."""

    def __init__(self, storage: CheckpointStorage, directory: str, restored: Mapping[SubtaskId, Snapshot]) -> None:
        self.directory = directory
        self.snapshots = dict(restored)
        self._storage = storage
        self._written: set[str] = set()  # files in no acknowledgement yet
        self._created: dict[str, int] = {}  # by path, the first completed checkpoint that has the file
        self.settled = {subtask for subtask, snapshot in restored.items() if snapshot.finished}

    def ran(self, reports: Iterable[Report]) -> None:
        """Add the runs that a micro-batch of an operator wrote."""
        for report in reports:
            self._written.update(handle.path for handle in report.handles)
            subtask = SubtaskId(report.operator_id, report.subtask_index)
            before = self.snapshots.get(subtask, Snapshot())
            runs = tuple(handle for handle in report.handles if handle.kind is HandleKind.RUN)
            self.snapshots[subtask] = replace(before, handles=(*before.handles, *runs))

    def moved(self, subtask: SubtaskId, snapshot: Snapshot) -> None:
        """Record the new position of a source split."""
        known = {handle.path for handle in self.snapshots.get(subtask, Snapshot()).handles}
        self._written.update(handle.path for handle in snapshot.handles if handle.path not in known)
        self.snapshots[subtask] = snapshot

    def compacted(self, compactions: Sequence[CompactedRun]) -> None:
        """Use merged runs from now on, but not those of settled subtasks."""
        self._written.update(compaction.handle.path for compaction in compactions)
        used = [compaction for compaction in compactions if compaction.subtask not in self.settled]
        self.snapshots = apply_compactions(self.snapshots, used)

    def acknowledged(self, checkpoint_id: int, acknowledgement: Acknowledgement) -> Acknowledgement:
        """Return the acknowledgement to report. The store owns its files from now on. A file that is in no completed
        checkpoint counts as written by this one."""
        handles = tuple(self._dated(checkpoint_id, handle) for handle in acknowledgement.snapshot.handles)
        self._written.difference_update(handle.path for handle in handles)
        if acknowledgement.snapshot.finished:
            self.settled.add(acknowledgement.subtask)
        return replace(acknowledgement, snapshot=replace(acknowledgement.snapshot, handles=handles))

    def _dated(self, checkpoint_id: int, handle: StateHandle) -> StateHandle:
        if not handle.path.startswith(f"{self.directory}/"):
            return handle
        return replace(handle, created_by=self._created.get(handle.path, checkpoint_id))

    def as_of(self, checkpoint_id: int) -> dict[SubtaskId, Snapshot]:
        """Return `snapshots` with their files dated as that checkpoint would record them."""
        return {
            subtask: replace(snapshot, handles=tuple(self._dated(checkpoint_id, handle) for handle in snapshot.handles))
            for subtask, snapshot in self.snapshots.items()
        }

    def dated(self, checkpoint_id: int, captured: Iterable[InFlight]) -> list[InFlight]:
        """Return in-flight data with its files dated as in an acknowledgement of the checkpoint."""
        return [
            replace(
                item,
                data=replace(item.data, handles=tuple(self._dated(checkpoint_id, file) for file in item.data.handles)),
            )
            if isinstance(item.data, Exchange)
            else item
            for item in captured
        ]

    def completed(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Record that a checkpoint has completed with these acknowledgements."""
        for acknowledgement in acknowledgements:
            for handle in acknowledgement.snapshot.handles:
                self._created.setdefault(handle.path, handle.created_by)

    def delete_unused(self, in_flight: Iterable[StateHandle]) -> None:
        """Delete files that were never acknowledged and are no longer needed: merged runs, consumed exchanges."""
        used = {handle.path for snapshot in self.snapshots.values() for handle in snapshot.handles}
        used |= {handle.path for handle in in_flight}
        if garbage := sorted(self._written - used):
            self._storage.delete(garbage)
        self._written &= used
        self._created = {path: created for path, created in self._created.items() if path in used}
