"""The times at which a continuous run reads the store and polls its sources, and how long it waits in between."""

from datetime import timedelta

from tidegate.ports import Round
from tidegate.protocol.continuous.schedule import PollSchedule

#: The longest time between two reads of the store, if nothing is known to be due there.
POLL_EVERY = timedelta(seconds=0.5)

#: The time between two rounds while a snapshot is being written, whose end is not notified.
_WHILE_WRITING = timedelta(seconds=0.02)


class Pace:
    """The pace of one attempt. `now` is on the monotonic clock of its process. `due` is the time of the next checkpoint
    request, if known."""

    def __init__(self, now: timedelta) -> None:
        self.polled_at = now
        self.idle = False  # nothing was done in the last round
        self._writing = False
        self._is_due = True  # whether a read of the store is due
        self._polls = PollSchedule(now)
        self._polls_first = False  # it has waited until a checkpoint was due, and has not polled since

    def longest_wait(self, due: timedelta | None, now: timedelta) -> timedelta:
        longest = _WHILE_WRITING if self._writing else self._polls.wait(now)
        return longest if due is None else min(longest, max(due - now, timedelta(0)))

    def waited(self, due: timedelta | None, has_changed: bool, now: timedelta) -> None:
        """Record the end of a wait. `has_changed`: whether the store has changed."""
        self._is_due = has_changed
        self._polls_first = due is not None and now >= due

    def polls_first(self) -> bool:
        """Whether to poll before the checkpoint, True once after a wait until one was due. Rows that arrived meanwhile
        belong to it, because the next checkpoint is one interval away."""
        polls_first, self._polls_first = self._polls_first, False
        return polls_first

    def is_poll_due(self, now: timedelta) -> bool:
        return self._polls.is_due(now)

    def poll_store_next(self) -> None:
        self._is_due = True

    def is_store_poll_due(self, due: timedelta | None, has_completed: bool | None, now: timedelta) -> bool:
        """Whether to read the store. `has_completed`: whether the completion in progress has ended; None if there is
        none."""
        if now - self.polled_at >= POLL_EVERY or (due is not None and now >= due):
            return True
        return self._is_due if has_completed is None else has_completed  # the run itself causes most changes

    def advanced(self, done: Round, polled: bool, writing: bool, begin: timedelta, end: timedelta) -> None:
        if polled and done.idle and not done.behind:
            self._polls.found_nothing(begin, end)
        self.idle, self._writing = done.idle, done.writing or writing
        self._is_due = done.idle
