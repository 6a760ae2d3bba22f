"""What a stored time means to a process whose clock shows another one.

Clocks of machines differ by some seconds, are set back, or run ahead until somebody corrects them. So a stored time may
lie in the future. Nobody knows then which clock was wrong, so no such time is believed for longer than the wait that it
begins is long:

- A completion, before the minimum pause: the pause is over.
- One's own last sign of life, look or listing: the next one is due.
- The last try of an event: it is tried again.
- The sign of life of a region, a request or an import: corrected to now, in the store. A living owner gives the next
  one. A dead one is silent from then on, and loses its turn after one lease.
- The sign of life of a committer: a process that waits counts from its own first look (`committing`).
- A completion, before its pipeline counts as stale: not counted. The pipeline is rather reported than overlooked.
- The deadline of a checkpoint in progress: corrected to a timeout from now, in the store. A living driver has that long
  to go on. A dead one holds up nothing for longer. What a person decides about is left alone.
- The end of a hold: it stands. A person may decide at any moment, and nothing else may end a hold early.
- The end of a checkpoint or region, a restore, an event, before files or rows are deleted: as if it were now. Nothing
  is deleted too early.

Within one process, waits are measured on the monotonic clock, which nobody sets. The time to live of state follows the
checkpoints and the events, not these rules (`expiry`). Pure.
"""

from datetime import datetime, timedelta


def time_left(began: datetime, lasts: timedelta, now: datetime) -> timedelta:
    """The rest of a wait; zero if it is over. It is over too if it would begin further in the future than it lasts, so
    no wait takes longer than twice its length, whoever dated its beginning. Performs no I/O."""
    return began + lasts - now if abs(now - began) < lasts else timedelta(0)


def is_over(began: datetime, lasts: timedelta, now: datetime) -> bool:
    """Whether nothing is left of a wait. Performs no I/O."""
    return not time_left(began, lasts, now)


def is_ahead(seen_at: datetime, lease: timedelta, now: datetime) -> bool:
    """Whether a sign of life lies further in the future than its lease lasts, and is to be corrected to now. Performs
    no I/O."""
    return seen_at - now > lease
