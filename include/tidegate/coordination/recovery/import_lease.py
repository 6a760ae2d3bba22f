"""The turn of a process that copies files in, for a checkpoint to come.

Nobody knows that checkpoint before it is recorded. If it never is, its files are swept: at once if the process says so,
and else when it was silent for too long.
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
    """One turn. `purpose` is what the pipeline is to be with the files."""

    def __init__(self, context: PipelineContext, purpose: str) -> None:
        self._context = context
        self._purpose = purpose
        self._seen_at = context.clock.now()
        self.checkpoint_id = 0

    def begin(self, tx: StoreTransaction, after: int) -> None:
        """Take the next checkpoint id, higher than `after` too."""
        self._seen_at = self._context.clock.now()
        self.checkpoint_id = tx.begin_import(after, self._seen_at)

    def keep(self) -> None:
        """Give a sign of life when it is time. Raises `CopyInterruptedError` if that comes too late."""
        now = self._context.clock.now()
        if not is_over(self._seen_at, KEEP_EVERY, now):
            return
        self._seen_at = now
        with self._context.transaction() as tx:
            is_mine = tx.touch_import(self.checkpoint_id, now)
        if not is_mine:
            raise copy_interrupted(self._context.pipeline_id, self._purpose)

    def end(self, tx: StoreTransaction, now: datetime) -> None:
        """In the transaction that records the checkpoint. Raises as `keep`."""
        if not tx.end_import(self.checkpoint_id, now):
            raise copy_interrupted(self._context.pipeline_id, self._purpose)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Around everything from the first copy to the commit. After an error the lease ends, so that the copies are
        deleted, unless the commit has landed."""
        try:
            yield
        except CheckpointError as error:
            if isinstance(error, UnknownOutcomeError) and self._has_landed():
                return
            is_mine = self._give_up()
            if isinstance(error, StateIntegrityError) and not is_mine:  # a sweep has taken what was copied
                raise copy_interrupted(self._context.pipeline_id, self._purpose) from error
            raise

    def _has_landed(self) -> bool:
        with self._context.transaction() as tx:  # waits for a commit under way: same row lock
            return tx.checkpoint(self.checkpoint_id) is not None

    def _give_up(self) -> bool:
        """What was copied is deleted by the next cleaning. If the store is away, when the lease has ended. False if it
        was ended before."""
        try:
            with self._context.transaction() as tx:
                return tx.end_import(self.checkpoint_id, self._context.clock.now())
        except CheckpointError:
            return True
