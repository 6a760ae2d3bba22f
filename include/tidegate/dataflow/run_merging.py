"""Merges the runs of a continuous region beside its loop, so that rows flow on meanwhile: when a checkpoint has
completed, and after so many micro-batches if none does."""

from concurrent.futures import Executor, Future
from dataclasses import replace

from tidegate.dataflow.jobs import Parts
from tidegate.dataflow.live_state import LiveState
from tidegate.protocol.facts.records import CompactedRun, Snapshot, SubtaskId

#: Micro-batches after which runs are merged, whether or not a checkpoint completes.
BATCHES = 16


class RunMerging:
    """Of one region. One merge at a time, of the runs that there are when it begins. `after`: that many
    micro-batches."""

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
        """Whether runs should be merged now that so many more micro-batches have written some."""
        self._batches += batches
        return self._batches >= self.after

    def start(self, checkpoint_id: int) -> None:
        """Merge runs where there are too many, for the checkpoint with this id, unless a merge is under way."""
        if self._merged is None:
            snapshots, below = self._mergeable(checkpoint_id), self._state.directory
            self._merged = self._background.submit(self._jobs.compact, checkpoint_id, snapshots, below)
            self._batches = 0

    def _mergeable(self, checkpoint_id: int) -> dict[SubtaskId, Snapshot]:
        """The runs that may be merged. Those of settled subtasks may not: see `LiveState`.

        Where rows expire by event time, only runs of earlier checkpoints may. Their rows say what time it is, and rows
        of this checkpoint do not yet. A merged run cannot tell them apart, and it may be used only after the next
        barrier. See `protocol.schema.expiry`.
        """
        settled = self._state.settled
        snapshots = {key: each for key, each in self._state.as_of(checkpoint_id).items() if key not in settled}
        for subtask, snapshot in snapshots.items():
            if subtask.operator_id in self._by_event_time:
                earlier = tuple(handle for handle in snapshot.handles if handle.created_by < checkpoint_id)
                snapshots[subtask] = replace(snapshot, handles=earlier)
        return snapshots

    def take(self) -> bool:
        """Use the merged runs from here on; they are part of the next snapshot. Returns whether there are new ones.
        Raises what has stopped the merge."""
        if self._merged is None or not self._merged.done():
            return False
        merged, self._merged = self._merged.result(), None
        self._state.compacted(merged)
        return True
