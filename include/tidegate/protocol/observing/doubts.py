"""Doubts: completed checkpoints that not every table shows yet, with the cause, the effect on readers, and advice.

Between the commit point and the last sink there is always a moment. It counts as a doubt from its beginning. The user
or the monitor decides how long one may last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.protocol.facts.branches import Restore, find_unfinished
from tidegate.protocol.facts.clocks import is_over
from tidegate.protocol.facts.names import is_sink, sink_of_operator
from tidegate.protocol.facts.records import CheckpointRecord
from tidegate.protocol.steps.committing import COMMIT_LEASE, CommitterRecord


class DoubtReason(StrEnum):
    """The reason why tables do not show a completed checkpoint."""

    COMMITTING = "COMMITTING"  # a process commits, and has given a sign of life
    RESTORING = "RESTORING"  # a restore takes the tables back first
    FAILED = "FAILED"  # the last attempt has failed
    STOPPED = "STOPPED"  # the process that committed gives no sign of life
    NOT_BEGUN = "NOT_BEGUN"  # no process commits


@dataclass(frozen=True, slots=True)
class Doubt:
    """A completed checkpoint that not all sinks have committed; or, with the number of a `restore`, the checkpoint that
    tables must go back to. `sinks` are those that may not show it. It completed or was restored at `since`. `problem`
    is the failure of the last attempt, if it has failed."""

    checkpoint_id: int
    restore: int | None
    since: datetime
    reason: DoubtReason
    sinks: tuple[str, ...]
    problem: str | None
    why: str
    readers: str
    advice: str


@dataclass(frozen=True, slots=True)
class DoubtFacts:
    """The records of one pipeline, as of one moment. `unnotified` are the completed checkpoints of the present branch
    that not all sinks have committed, oldest first. `shown` is the newest one that all have committed, on any
    branch."""

    pipeline_id: str
    unnotified: Sequence[CheckpointRecord]
    restores: Sequence[Restore]
    restored: CheckpointRecord | None
    shown: int | None
    committer: CommitterRecord


def find_doubts(facts: DoubtFacts, now: datetime) -> list[Doubt]:
    """Find the present doubts: the restore first, then checkpoints, oldest first. A sink in the commit shows a
    checkpoint as soon as it has completed, and follows a restore at once, so it is never in doubt. Performs no I/O."""
    restore = find_unfinished(facts.restores)
    doubts = []
    if restore is not None and facts.restored is not None and (sinks := _after_the_commit(facts.restored)):
        doubts.append(_restoring(facts, restore, sinks, now))
    for record in facts.unnotified:
        if sinks := _after_the_commit(record):
            doubts.append(_committing(facts, record, sinks, restore is not None, now))
    return doubts


def _after_the_commit(record: CheckpointRecord) -> tuple[str, ...]:
    """Return the sinks that are not in the checkpoint's commit."""
    operators = [plan.operator_id for plan in record.operators if is_sink(plan.operator_id)]
    return tuple(sink_of_operator(id_) for id_ in operators if id_ not in record.committed_sinks)


def _restoring(facts: DoubtFacts, restore: Restore, sinks: tuple[str, ...], now: datetime) -> Doubt:
    goal = restore.goes_on_from
    before = f"checkpoint {restore.previous_checkpoint_id}" if restore.previous_checkpoint_id else "their former rows"
    reason = _reason(facts.committer, now)
    return Doubt(
        goal,
        restore.number,
        restore.restored_at,
        reason,
        sinks,
        facts.committer.problem,
        f"The pipeline was restored to checkpoint {goal}, and its tables must go back. {_why(reason, facts)}",
        f"{_listed(sinks)} may still show {before}, or checkpoint {goal} already. tidegate.read gives checkpoint "
        f"{goal}.",
        _advice(reason, facts),
    )


def _committing(
    facts: DoubtFacts, record: CheckpointRecord, sinks: tuple[str, ...], restoring: bool, now: datetime
) -> Doubt:
    id_ = record.checkpoint_id
    reason = DoubtReason.RESTORING if restoring else _reason(facts.committer, now)
    before = "nothing yet" if facts.shown is None else f"checkpoint {facts.shown}"
    assert record.completed_at is not None
    readers = f"{_listed(sinks)} may still show {before}, or checkpoint {id_} already."
    if record.committed_sinks:
        names = tuple(sink_of_operator(each) for each in record.committed_sinks)
        readers += f" {_listed(names)} showed it as soon as it completed."
    if facts.shown is not None:
        readers += f" tidegate.read gives checkpoint {facts.shown} of them."
    problem = None if restoring else facts.committer.problem
    return Doubt(
        id_, None, record.completed_at, reason, sinks, problem, _why(reason, facts), readers, _advice(reason, facts)
    )


def _reason(committer: CommitterRecord, now: datetime) -> DoubtReason:
    if committer.seen_at is not None:
        over = is_over(committer.seen_at, COMMIT_LEASE, now)
        return DoubtReason.STOPPED if over else DoubtReason.COMMITTING
    return DoubtReason.NOT_BEGUN if committer.problem is None else DoubtReason.FAILED


def _why(reason: DoubtReason, facts: DoubtFacts) -> str:
    committer = facts.committer
    seen = "" if committer.seen_at is None else f"at {committer.seen_at:%Y-%m-%d %H:%M:%S} UTC"
    before = f" Before it: {committer.problem}" if committer.problem else ""
    match reason:
        case DoubtReason.COMMITTING:
            return f"Attempt {committer.attempt} is in progress, and gave a sign of life {seen}.{before}"
        case DoubtReason.STOPPED:
            return f"Attempt {committer.attempt} gave its last sign of life {seen}: its process has stopped.{before}"
        case DoubtReason.FAILED:
            return f"{committer.problem}"
        case DoubtReason.RESTORING:
            return "The restore before it comes first."
        case DoubtReason.NOT_BEGUN:
            return "The process that completed it has ended before the notify step, and no other one has begun it."


def _advice(reason: DoubtReason, facts: DoubtFacts) -> str:
    again = (
        f"`tidegate run {facts.pipeline_id}`, the next DAG run, or clearing its task `notify` repeats it. Nothing is "
        "lost, and repeating it changes nothing that is shown already."
    )
    match reason:
        case DoubtReason.COMMITTING:
            return "Nothing. If that process stops, the next one takes over."
        case DoubtReason.FAILED:
            return f"Remove the cause. Then {again}"
        case DoubtReason.RESTORING:
            return "See the restore."
        case DoubtReason.STOPPED | DoubtReason.NOT_BEGUN:
            return again


def _listed(sinks: Sequence[str]) -> str:
    *others, last = sinks
    return f"Tables {', '.join(others)} and {last}" if others else f"Table {last}"
