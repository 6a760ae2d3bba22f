"""The lease of a process that copies files for a future checkpoint.

The database does not list that checkpoint before it is recorded. If it never is, its files are swept, at once if the
process reports the failure, otherwise after it has given no sign of life for too long.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from tidegate.coordination.context import PipelineContext
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.clocks import is_over
from tidegate.protocol.facts.errors import CheckpointError, StateIntegrityError, UnknownOutcomeError
from tidegate.protocol.recovery.imports import KEEP_EVERY, copy_interrupted


class ImportLease:
    """The lease of one copy. `purpose` describes the pipeline after it, such as "restored from …"."""

    def __init__(self, context: PipelineContext, purpose: str) -> None:
        self._context = context
        self._purpose = purpose
        self._seen_at = context.clock.now()
        self.checkpoint_id = 0

    def begin(self, tx: StoreTransaction, after: int) -> None:
        """Take the next checkpoint id that is higher than `after`."""
        self._seen_at = self._context.clock.now()
        self.checkpoint_id = tx.begin_import(after, self._seen_at)

    def keep(self) -> None:
        """Give a sign of life if one is due. Raises `CopyInterruptedError` if it comes too late."""
        now = self._context.clock.now()
        if not is_over(self._seen_at, KEEP_EVERY, now):
            return
        self._seen_at = now
        with self._context.transaction() as tx:
            is_held = tx.touch_import(self.checkpoint_id, now)
        if not is_held:
            raise copy_interrupted(self._context.pipeline_id, self._purpose)

    def end(self, tx: StoreTransaction, now: datetime) -> None:
        """End the lease in the transaction that records the checkpoint. Raises as `keep`."""
        if not tx.end_import(self.checkpoint_id, now):
            raise copy_interrupted(self._context.pipeline_id, self._purpose)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease from the first copy to the commit. After an error the lease ends, so that the copies are
        deleted, unless the commit has landed."""
        try:
            yield
        except CheckpointError as error:
            if isinstance(error, UnknownOutcomeError) and self._has_landed():
                return
            was_held = self._give_up()
            if isinstance(error, StateIntegrityError) and not was_held:  # a sweep has deleted the copies
                raise copy_interrupted(self._context.pipeline_id, self._purpose) from error
            raise

    def _has_landed(self) -> bool:
        with self._context.transaction() as tx:  # waits for a commit in progress, which holds the same row lock
            return tx.checkpoint(self.checkpoint_id) is not None

    def _give_up(self) -> bool:
        """End the lease, so that the next cleaning deletes the copies. If the store is unavailable, that happens after
        the lease has run out. Return False if it was ended before."""
        try:
            with self._context.transaction() as tx:
                return tx.end_import(self.checkpoint_id, self._context.clock.now())
        except CheckpointError:
            return True
