"""Merging of runs in the background of a continuous region, so that rows keep flowing meanwhile. It happens when a
checkpoint has completed, or else after a number of micro-batches."""

from concurrent.futures import Executor, Future
from dataclasses import replace

from tidegate.dataflow.jobs import Parts
from tidegate.dataflow.live_state import LiveState
from tidegate.protocol.facts.records import CompactedRun, Snapshot, SubtaskId

#: The number of micro-batches after which runs are merged even if no checkpoint completes.
BATCHES = 16


class RunMerging:
    """The merging of one region's runs. One merge runs at a time, over the runs that exist when it begins. `after` is
    the number of micro-batches between merges."""

    def __init__(self, parts: Parts, state: LiveState, background: Executor) -> None:
        self._jobs = parts.jobs
        self._by_event_time = {
            vertex.operator_id for vertex in parts.graph.keyed if vertex.ttl and not vertex.ttl.processing_time
        }
        self._state = state
        self._background = background
        self.after = BATCHES
        self._merged: Future[list[CompactedRun]] | None = None
        self._batches = 0

    def is_due_after(self, batches: int) -> bool:
        """Return whether runs should be merged after this number of further micro-batches."""
        self._batches += batches
        return self._batches >= self.after

    def start(self, checkpoint_id: int) -> None:
        """Merge the runs of subtasks with too many, for the checkpoint with this id, unless a merge is under way."""
        if self._merged is None:
            snapshots, below = self._mergeable(checkpoint_id), self._state.directory
            self._merged = self._background.submit(self._jobs.compact, checkpoint_id, snapshots, below)
            self._batches = 0

    def _mergeable(self, checkpoint_id: int) -> dict[SubtaskId, Snapshot]:
        """Return the runs that may be merged. Those of settled subtasks may not: see `LiveState`.

        Where rows expire by event time, only runs of earlier checkpoints may be merged. Their rows determine the time
        of expiry, and rows of this checkpoint do not yet. A merged run cannot tell them apart, and may be used only
        after the next barrier. See `protocol.schema.expiry`.
        """
        settled = self._state.settled
        snapshots = {id_: taken for id_, taken in self._state.as_of(checkpoint_id).items() if id_ not in settled}
        for subtask, snapshot in snapshots.items():
            if subtask.operator_id in self._by_event_time:
                earlier = tuple(handle for handle in snapshot.handles if handle.created_by < checkpoint_id)
                snapshots[subtask] = replace(snapshot, handles=earlier)
        return snapshots

    def take(self) -> bool:
        """Use the merged runs from now on; they are part of the next snapshot. Return whether there are new ones. Raise
        the error that stopped the merge."""
        if self._merged is None or not self._merged.done():
            return False
        merged, self._merged = self._merged.result(), None
        self._state.compacted(merged)
        return True
