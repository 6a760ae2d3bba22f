"""The schedule of a continuous run's periodic checkpoints (protocol.md section 2) and of its polls.

Scheduled pipelines have their DAG's schedule instead. `admission` decides whether a request may start. Times are those
of one process on its monotonic clock, as a `timedelta` since some moment.
"""

from datetime import timedelta

OFF = timedelta(0)  # as the interval during a backlog

#: The time between two polls of sources without new input. After a slow poll the wait is a multiple of its duration, up
#: to a limit, because a directory of many files should not keep a processor busy.
_POLL_EVERY, _WAIT_AFTER_POLL, _POLL_AT_LEAST_EVERY = timedelta(seconds=0.05), 9, timedelta(seconds=0.5)


class PeriodicSchedule:
    """Ticks of one resident process, on a grid that does not drift. It reads no clock: the caller passes the time.

    `interval` None: no ticks. `during_backlog` is the interval while a source is behind, zero for no ticks meanwhile.
    Neither is shorter than `min_pause`. The first tick is a random `fraction` (0 to 1) of the way from `min_pause` to
    `interval` after `started_at`, so that pipelines that started together do not checkpoint together.
    """

    def __init__(
        self,
        interval: timedelta | None,
        during_backlog: timedelta | None,
        min_pause: timedelta,
        *,
        started_at: timedelta,
        fraction: float,
    ) -> None:
        self._interval = OFF if interval is None else interval
        self._during_backlog = self._interval if during_backlog is None else during_backlog
        self._is_backlog = False
        self._armed = started_at + min_pause + fraction * (self._interval - min_pause)

    @property
    def _current(self) -> timedelta:
        return self._during_backlog if self._is_backlog else self._interval

    @property
    def next_at(self) -> timedelta | None:
        """The time of the next request for a checkpoint, due at once if it has passed; None while there are no
        ticks."""
        return None if self._current == OFF else self._armed

    def fired(self, now: timedelta) -> None:
        """Advance past the tick at `next_at`. Call this before requesting its checkpoint, and `dropped` if the request
        is refused.

        A late tick also stands for those missed meanwhile, because its checkpoint takes all arrived input.
        """
        if self._current != OFF:
            missed = max((now - self._armed) // self._current, 0)
            self._armed += (missed + 1) * self._current

    def dropped(self, remaining: timedelta, now: timedelta) -> None:
        """Postpone a checkpoint that was refused because of the minimum pause to the end of the `remaining` pause."""
        self._armed = now + remaining

    def backlog(self, is_backlog: bool, now: timedelta) -> None:
        """Set whether a source is behind. The call may be repeated: only a change has an effect."""
        was_off = self._current == OFF
        self._is_backlog = is_backlog
        if self._current == OFF:
            return
        earliest = now + self._current
        if earliest < self._armed or (was_off and self._armed <= now):  # a tick that fell due while off is gone
            self._armed = earliest


class PollSchedule:
    """The schedule of polls. It reads no clock either."""

    def __init__(self, started_at: timedelta) -> None:
        self._next_at = started_at

    def found_nothing(self, begin: timedelta, end: timedelta) -> None:
        """Postpone the next poll after one from `begin` to `end` that found nothing. After a poll that finds input, the
        next is due at once."""
        self._next_at = end + min(_WAIT_AFTER_POLL * (end - begin), _POLL_AT_LEAST_EVERY)

    def is_due(self, now: timedelta) -> bool:
        return now >= self._next_at

    def wait(self, now: timedelta) -> timedelta:
        """Return the time that an idle run sleeps before the next poll."""
        return _POLL_EVERY if self.is_due(now) else max(_POLL_EVERY, self._next_at - now)
