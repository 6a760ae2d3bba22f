"""The part of a transaction about files that nothing refers to any more, and about the end of a history."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tidegate.protocol.facts.records import CheckpointRecord, Deletion


class GarbageQueue(Protocol):
    """The part of `StoreTransaction` that cleaning up needs."""

    def enqueue_deletions(self, deletions: Sequence[Deletion], given_up_by: int | None = None) -> None:
        """Queue files, in the order given; one that is already in the queue stays as it is. `given_up_by` is the
        checkpoint whose reports named them and did not count: see `pending_deletions`."""
        ...

    def pending_deletions(self, limit: int) -> list[Deletion]:
        """Read queued files, oldest first: none that something live refers to, and none that the running region may
        still refer to.

        The latter are files below its directory that a checkpoint has discarded (by failing, or see
        `enqueue_deletions`), as long as no checkpoint with a higher id has completed.
        """
        ...

    def remove_deletions(self, deletions: Sequence[Deletion]) -> None: ...
    def mark_discarded(self, gone: Sequence[Deletion] = ()) -> None:
        """Remove the files from the queue, then move checkpoints with no file left in it from SUBSUMED to DISCARDED."""
        ...

    def unswept(self) -> dict[int, datetime]:
        """Read when each checkpoint or import has ended whose directory may still hold files of crashed or superseded
        attempts, oldest first."""
        ...

    def mark_swept(self, checkpoint_ids: Sequence[int]) -> None: ...
    def not_rolled_up(self, limit: int) -> list[CheckpointRecord]:
        """Read ended checkpoints whose subtasks are still on record, oldest first: without savepoints, without those
        whose state is kept, and without completed ones whose sinks were not notified."""
        ...

    def roll_up(self, checkpoint_ids: Sequence[int]) -> None:
        """Replace the subtasks of ended checkpoints, with their files and metrics, by their totals. Raises
        `RecordRefusedError` for a savepoint, and for a checkpoint that is in progress or has state or staged rows
        left."""
        ...

    def live_paths(self, *checkpoint_ids: int) -> set[Deletion]:
        """Read the owner and path of everything live that these checkpoints created, their metadata included."""
        ...

    def live_below(self, directory: str) -> set[Deletion]:
        """Read everything live on checkpoint storage below a directory."""
        ...

    def mark_regions_swept(self, attempt: int) -> None:
        """Record that the directories of this attempt of a region, and of older ones, need no further sweep."""
        ...
