"""What a transaction may ask and write about files that nothing refers to any more, and about the end of a history."""

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
        """Oldest first; none that something live refers to, and none that the running region may still refer to.

        The latter are files below its directory that a checkpoint has discarded (by failing, or see
        `enqueue_deletions`), as long as no checkpoint with a higher id has completed.
        """
        ...

    def remove_deletions(self, deletions: Sequence[Deletion]) -> None: ...
    def mark_discarded(self, gone: Sequence[Deletion] = ()) -> None:
        """SUBSUMED -> DISCARDED for those with nothing left in the deletion queue, which these files leave first."""
        ...

    def unswept(self) -> dict[int, datetime]:
        """Ended checkpoints, and imports, whose directories may still hold files of crashed or superseded attempts:
        when each ended, oldest first."""
        ...

    def mark_swept(self, checkpoint_ids: Sequence[int]) -> None: ...
    def not_rolled_up(self, limit: int) -> list[CheckpointRecord]:
        """Checkpoints that have ended, whose state is not kept, whose sinks were notified if they have completed, and
        whose subtasks are on record; oldest first, and without savepoints."""
        ...

    def roll_up(self, checkpoint_ids: Sequence[int]) -> None:
        """Replace the subtasks of ended checkpoints, with their files and metrics, by what they come to. Raises
        `RecordRefusedError` for a savepoint, and for one that is in progress or has state or staged rows left."""
        ...

    def live_paths(self, *checkpoint_ids: int) -> set[Deletion]:
        """(owner, path) of everything live that these checkpoints created, their metadata included."""
        ...

    def live_below(self, directory: str) -> set[Deletion]:
        """Everything live on checkpoint storage below a directory."""
        ...

    def mark_regions_swept(self, attempt: int) -> None:
        """The directories of this attempt of a region, and of older ones, need no further look."""
        ...
