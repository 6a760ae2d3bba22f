"""Who commits the sinks of a pipeline: one committer at a time. If two believe they are it, the newest one.

Attempts fence: each committer gets the next number, and every step of an older one fails (see `ports.Sink.commit`).
Safety does not depend on the lease, and clocks may be wrong: it only says how long a healthy committer is left alone.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidegate.protocol.facts.clocks import is_over
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.text.masking import masked

#: A committer that was not seen for this long is stopped, hangs or is dead: the next one takes over.
COMMIT_LEASE = timedelta(seconds=10)
#: How often a committer's sign of life is written.
SIGN_EVERY = COMMIT_LEASE / 4
#: How often a process that waits for a committer looks again: a commit takes milliseconds.
LOOK_EVERY = timedelta(seconds=0.2)


@dataclass(frozen=True, slots=True)
class CommitterRecord:
    """The newest committer of a pipeline. `attempt` 0: there never was one. `seen_at` None: no process commits.
    `problem` says why the newest attempt that has ended had failed; None if it had not."""

    attempt: int = 0
    seen_at: datetime | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """No other process commits: the next attempt may begin."""


@dataclass(frozen=True, slots=True)
class AlreadyDone:
    """Another attempt has done the work, and that is recorded, or it is not wanted any more."""


@dataclass(frozen=True, slots=True)
class WaitForCommitter:
    """Another committer is at work; its current record was first seen at `since`. Look again after `pause`."""

    pause: timedelta
    committer: CommitterRecord
    since: datetime


def decide_take(
    done: bool, committer: CommitterRecord, waited: WaitForCommitter | None, now: datetime
) -> Take | WaitForCommitter | AlreadyDone:
    """Whether sinks are to be changed now, unless that is `done`; `waited` is the answer of the look before.

    A lease ends `COMMIT_LEASE` after the last sign, which the committer's clock has dated. If that clock is far ahead,
    it ends once this process has watched for that long without a new sign. Performs no I/O.
    """
    if done:
        return AlreadyDone()
    if committer.seen_at is None:
        return Take()
    since = waited.since if waited is not None and waited.committer == committer else now
    rest = min(committer.seen_at, since) + COMMIT_LEASE - now
    if rest <= timedelta(0):
        return Take()
    return WaitForCommitter(min(rest, LOOK_EVERY), committer, since)


def is_committing(committer: CommitterRecord, attempt: int) -> bool:
    """Whether this attempt is the newest and was not ended, however long ago it was last seen. Performs no I/O."""
    return committer.seen_at is not None and committer.attempt == attempt


def begun(committer: CommitterRecord, at: datetime) -> CommitterRecord:
    """The next attempt, whatever became of the one before. Performs no I/O."""
    return CommitterRecord(committer.attempt + 1, at, committer.problem)


def ended(committer: CommitterRecord, problem: str | None = None) -> CommitterRecord:
    """The same attempt, which may do nothing any more; `problem` says why it has failed. Performs no I/O."""
    return replace(committer, seen_at=None, problem=problem)


def describe_failure(what: str, error: Exception) -> str:
    """What is on record of an attempt that has failed. `what` it was at is said in words such as "committing the sinks
    of checkpoint 3". Performs no I/O."""
    said = str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}"
    return f"{what[:1].upper()}{what[1:]} failed: {masked(said)}"


def needs_sign(seen_at: datetime, now: datetime) -> bool:
    """Whether it is time for the next sign of life. Performs no I/O."""
    return is_over(seen_at, SIGN_EVERY, now)


def reserved(committer: CommitterRecord, attempt: int) -> CommitterRecord:
    """The record, after which only attempts are given out that are newer than this one. Performs no I/O."""
    return CommitterRecord(max(committer.attempt, attempt))
