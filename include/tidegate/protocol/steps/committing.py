"""The committer of a pipeline's sinks. There is one at a time; if two processes take themselves for it, the newest
wins.

Attempts fence: each committer gets the next number, and every step of an older one fails (see `ports.Sink.commit`).
Safety does not depend on the lease, and clocks may be wrong. The lease only limits how long a committer is left alone.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.protocol.facts.clocks import is_over
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.text.masking import masked

#: A committer without a sign of life for this long is stopped, hangs or is dead. The next one takes over.
COMMIT_LEASE = timedelta(seconds=10)
#: The time between two signs of life of a committer.
SIGN_EVERY = COMMIT_LEASE / 4
#: The time between two reads of a process that waits for a committer. A commit takes milliseconds.
POLL_EVERY = timedelta(seconds=0.2)


@dataclass(frozen=True, slots=True)
class CommitterRecord:
    """The newest committer of a pipeline. `attempt` 0: there never was one. `seen_at` None: no process commits.
    `problem` is the failure of the newest attempt that has ended; None if it has not failed."""

    attempt: int = 0
    seen_at: datetime | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """No other process commits: the next attempt may begin."""


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """The work is recorded as done by another attempt, or is not needed any more."""


@dataclass(frozen=True, slots=True)
class WaitForCommitter:
    """Another committer is at work. Its current record was first read at `since`. Read it again after `pause`."""

    pause: timedelta
    committer: CommitterRecord
    since: datetime


def decide_take(
    done: bool, committer: CommitterRecord, waited: WaitForCommitter | None, now: datetime
) -> Take | WaitForCommitter | AlreadyDone:
    """Decide whether this process may change sinks now, unless the work is `done`. `waited` is the previous answer.

    A lease ends `COMMIT_LEASE` after the last sign of life, which the committer's clock has dated. If that clock is far
    ahead, it ends once this process has waited for that long without a new sign. Performs no I/O.
    """
    if done:
        return AlreadyDone()
    if committer.seen_at is None:
        return Take()
    since = waited.since if waited is not None and waited.committer == committer else now
    rest = min(committer.seen_at, since) + COMMIT_LEASE - now
    if rest <= timedelta(0):
        return Take()
    return WaitForCommitter(min(rest, POLL_EVERY), committer, since)


def is_committing(committer: CommitterRecord, attempt: int) -> bool:
    """Whether this attempt is the newest and has not ended, however old its last sign of life is. Performs no I/O."""
    return committer.seen_at is not None and committer.attempt == attempt


def begun(committer: CommitterRecord, at: datetime) -> CommitterRecord:
    """Return the record of the next attempt, whatever the outcome of the one before. Performs no I/O."""
    return CommitterRecord(committer.attempt + 1, at, committer.problem)


def ended(committer: CommitterRecord, problem: str | None = None) -> CommitterRecord:
    """Return the record of the ended attempt, which may do nothing any more. `problem` is the reason if it has failed.
    Performs no I/O."""
    return replace(committer, seen_at=None, problem=problem)


def describe_failure(what: str, error: Exception) -> str:
    """Return the message to record for a failed attempt. `what` describes its work in words such as "committing the
    sinks of checkpoint 3". Performs no I/O."""
    message = str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}"
    return f"{what[:1].upper()}{what[1:]} failed: {masked(message)}"


def needs_sign(seen_at: datetime, now: datetime) -> bool:
    """Whether it is time for the next sign of life. Performs no I/O."""
    return is_over(seen_at, SIGN_EVERY, now)


def reserved(committer: CommitterRecord, attempt: int) -> CommitterRecord:
    """Return a record after which only newer attempts than this one are given out. Performs no I/O."""
    return CommitterRecord(max(committer.attempt, attempt))
