"""When a continuous run looks at the store, when it polls its sources, and how long it waits in between."""

from datetime import timedelta

from tidegate.ports import Round
from tidegate.protocol.continuous.schedule import PollSchedule

#: The longest time between two looks at the store, if nothing is known to be due there.
LOOK_EVERY = timedelta(seconds=0.5)

#: The time between two rounds while a snapshot is being written: nobody says when it is.
_WHILE_WRITING = timedelta(seconds=0.02)


class Pace:
    """Of one attempt. `now` is on the monotonic clock of its process; `due` is when the next checkpoint is to be asked
    for, if that is known."""

    def __init__(self, now: timedelta) -> None:
        self.looked_at = now
        self.idle = False  # nothing was done in the last round
        self._writing = False
        self._is_due = True  # whether a look at the store is due
        self._polls = PollSchedule(now)
        self._polls_first = False  # it has waited until a checkpoint is due, and has not polled since

    def longest_wait(self, due: timedelta | None, now: timedelta) -> timedelta:
        longest = _WHILE_WRITING if self._writing else self._polls.wait(now)
        return longest if due is None else min(longest, max(due - now, timedelta(0)))

    def waited(self, due: timedelta | None, has_changed: bool, now: timedelta) -> None:
        """`has_changed`: something in the store."""
        self._is_due = has_changed
        self._polls_first = due is not None and now >= due

    def polls_first(self) -> bool:
        """Once after such a wait: what has landed meanwhile belongs to the checkpoint that is due, and the next is an
        interval away."""
        polls_first, self._polls_first = self._polls_first, False
        return polls_first

    def is_poll_due(self, now: timedelta) -> bool:
        return self._polls.is_due(now)

    def look_is_due(self) -> None:
        self._is_due = True

    def is_look_due(self, due: timedelta | None, has_completed: bool | None, now: timedelta) -> bool:
        """`has_completed`: whether what is being completed has ended; None if nothing is."""
        if now - self.looked_at >= LOOK_EVERY or (due is not None and now >= due):
            return True
        return self._is_due if has_completed is None else has_completed  # most of what changes is its own doing

    def advanced(self, done: Round, polled: bool, writing: bool, begin: timedelta, end: timedelta) -> None:
        if polled and done.idle and not done.behind:
            self._polls.found_nothing(begin, end)
        self.idle, self._writing = done.idle, done.writing or writing
        self._is_due = done.idle
