"""Rules for stored times that the clock of another process has made.

Clocks of machines differ by some seconds, are set back, or run ahead until they are corrected. So a stored time may lie
in the future, and it is unknown which clock was wrong. Such a time is trusted for no longer than the wait that it
begins:

- A completion, before the minimum pause: the pause is over.
- A process's own last sign of life, poll or listing: the next one is due.
- The last try of an event: it is tried again.
- The sign of life of a region, a request or an import: corrected to now, in the store. A living owner gives the next
  one. A dead one is silent from then on, and loses its turn after one lease.
- The sign of life of a committer: a process that waits counts from its own first read (`committing`).
- A completion, before its pipeline counts as stale: not counted. A false report is better than a missed one.
- The deadline of a checkpoint in progress: corrected to a timeout from now, in the store. A living driver has that long
  to go on. A dead one holds up nothing for longer. A held checkpoint is left alone.
- The end of a hold: it stands. The user may decide at any moment, and nothing else may end a hold early.
- The end of a checkpoint or region, a restore, an event, before files or rows are deleted: as if it were now. Nothing
  is deleted too early.

Within one process, waits are measured on the monotonic clock, which cannot be set. The time to live of state follows
the checkpoints and the events, not these rules (`expiry`). Pure.
"""

from datetime import datetime, timedelta


def time_left(began: datetime, lasts: timedelta, now: datetime) -> timedelta:
    """Return the rest of a wait; zero if it is over. A wait that would begin further in the future than it lasts is
    over too, so that no wait takes longer than twice its length, whichever clock dated its beginning. Performs no
    I/O."""
    return began + lasts - now if abs(now - began) < lasts else timedelta(0)


def is_over(began: datetime, lasts: timedelta, now: datetime) -> bool:
    """Whether a wait is over. Performs no I/O."""
    return not time_left(began, lasts, now)


def is_ahead(seen_at: datetime, lease: timedelta, now: datetime) -> bool:
    """Whether a sign of life lies further in the future than its lease lasts, so that it must be corrected to now.
    Performs no I/O."""
    return seen_at - now > lease
