"""Deletes garbage after a step, and along with a notification: there it shares the transactions that are open anyway.

What goes wrong here is logged. Garbage can wait, and never fails a checkpoint.
"""

import logging

from tidegate.coordination.cleaning.sweeper import Cleared, Garbage, Sweeper, Unreferenced
from tidegate.coordination.steps.rewinding_sinks import Rewinding
from tidegate.ports import StoreTransaction
from tidegate.protocol.facts.errors import CheckpointError

log = logging.getLogger("tidegate")

#: How many files and directories are seen to before a notification is recorded. More are left until after it: a
#: committer gives no sign of life meanwhile.
MOST_ALONG = 100


class Housekeeping:
    """Of one pipeline. Safe to run in several processes at once."""

    def __init__(self, pipeline_id: str, sweeper: Sweeper, rewinding: Rewinding) -> None:
        self.pipeline_id = pipeline_id
        self.sweeper = sweeper
        self._rewinding = rewinding

    def along(self) -> "CleaningAlong":
        """A cleaning for one notification."""
        return CleaningAlong(self)

    def clean(self) -> None:
        """Delete what nothing refers to."""
        self._do(clean=True)

    def end(self, cleaned: bool) -> None:
        """The rest, after a cleaning along with a notification that has `cleaned` all it found."""
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
    """What `CleansAlong` says, by a sweeper."""

    def __init__(self, housekeeping: Housekeeping) -> None:
        self._housekeeping = housekeeping
        self._sweeper = housekeeping.sweeper
        self._garbage: Garbage | None = None
        self._cleared: Cleared | None = None
        self._left: Unreferenced | None = None
        self._has_failed = False

    def look(self, tx: StoreTransaction) -> None:
        """Reads only: what it would have to expire first is left to `end`."""
        if not self._sweeper.find_expired(tx):
            self._garbage = self._sweeper.look(tx)

    def delete(self) -> None:
        garbage = self._garbage
        seen_to = self._cleared is not None or self._has_failed
        if garbage is None or seen_to or self._sweeper.count(garbage) > MOST_ALONG:
            return
        try:
            self._cleared = self._sweeper.delete(garbage)
        except CheckpointError as error:
            self._has_failed = True
            self._housekeeping.say(error)

    def record(self, tx: StoreTransaction) -> None:
        if self._cleared is not None:
            self._left = self._sweeper.record(tx, self._cleared)

    def refused(self) -> bool:
        had, self._garbage, self._cleared, self._left = self._cleared, None, None, None
        return bool(had)

    def end(self) -> None:
        """Delete what `record` has found that nothing refers to, and all that was left out."""
        if self._has_failed:
            return
        try:
            self._sweeper.delete_left(self._left or {})
        except CheckpointError as error:
            self._housekeeping.say(error)
            return
        is_all = self._garbage is not None and not self._garbage.queue.has_more
        self._housekeeping.end(is_all and self._left is not None)
