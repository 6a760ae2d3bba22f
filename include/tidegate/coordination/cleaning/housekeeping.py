"""Delete garbage after a step, or along with a notification, where it shares the notification's transactions.

Errors are only logged: a deletion is retried later, and never fails a checkpoint.
"""

import logging

from tidegate.coordination.cleaning.sweeper import Cleared, Garbage, Sweeper, Unreferenced
from tidegate.coordination.steps.rewinding_sinks import Rewinding
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.errors import CheckpointError

log = logging.getLogger("tidegate")

#: The most files and directories that are handled before a notification is recorded. More are handled after it, because
#: a committer gives no sign of life meanwhile.
MOST_ALONG = 100


class Housekeeping:
    """Clean up after one pipeline. Safe to run in several processes at once."""

    def __init__(self, pipeline_id: str, sweeper: Sweeper, rewinding: Rewinding) -> None:
        self.pipeline_id = pipeline_id
        self.sweeper = sweeper
        self._rewinding = rewinding

    def along(self) -> "CleaningAlong":
        """Return a cleaning for one notification."""
        return CleaningAlong(self)

    def clean(self) -> None:
        """Delete unreferenced files."""
        self._do(clean=True)

    def end(self, cleaned: bool) -> None:
        """Finish a cleaning that ran along with a notification. `cleaned`: whether that has deleted all it found."""
        self._do(clean=not cleaned)

    def _do(self, clean: bool) -> None:
        try:
            if clean:
                self.sweeper.clean()
            self._rewinding.delete_withdrawn()
            self.sweeper.rollup.roll_up()
        except CheckpointError as error:
            self.say(error)

    def say(self, error: CheckpointError) -> None:
        log.warning("Cleaning up after pipeline %s is left to the next run: %s", self.pipeline_id, error)


class CleaningAlong:
    """A cleaning along with a notification, a `CleansAlong`."""

    def __init__(self, housekeeping: Housekeeping) -> None:
        self._housekeeping = housekeeping
        self._sweeper = housekeeping.sweeper
        self._garbage: Garbage | None = None
        self._cleared: Cleared | None = None
        self._remaining: Unreferenced | None = None
        self._has_failed = False

    def check(self, tx: StoreTransaction) -> None:
        """Read what to delete. Nothing is expired here, which is left to `end`."""
        if not self._sweeper.find_expired(tx):
            self._garbage = self._sweeper.find_garbage(tx)

    def delete(self) -> None:
        garbage = self._garbage
        is_done = self._cleared is not None or self._has_failed
        if garbage is None or is_done or self._sweeper.count(garbage) > MOST_ALONG:
            return
        try:
            self._cleared = self._sweeper.delete(garbage)
        except CheckpointError as error:
            self._has_failed = True
            self._housekeeping.say(error)

    def record(self, tx: StoreTransaction) -> None:
        if self._cleared is not None:
            self._remaining = self._sweeper.record(tx, self._cleared)

    def refused(self) -> bool:
        cleared, self._garbage, self._cleared, self._remaining = self._cleared, None, None, None
        return bool(cleared)

    def end(self) -> None:
        """Delete the unreferenced files that `record` has found, and all that was left out."""
        if self._has_failed:
            return
        try:
            self._sweeper.delete_left(self._remaining or {})
        except CheckpointError as error:
            self._housekeeping.say(error)
            return
        is_all = self._garbage is not None and not self._garbage.queue.has_more
        self._housekeeping.end(is_all and self._remaining is not None)
