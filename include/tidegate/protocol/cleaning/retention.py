"""Retention: completed checkpoints that are subsumed, and files that nothing refers to (protocol.md section 9)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tidegate.protocol.facts.branches import Restore, undo_ends
from tidegate.protocol.facts.clocks import is_over
from tidegate.protocol.facts.names import STORAGE
from tidegate.protocol.facts.paths import marked_by
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord, Deletion

#: A superseded driver may go on writing for a while. Directories of ended checkpoints are searched until then.
SWEEP_FOR = timedelta(hours=1)
#: The time between two searches of a directory by one process. Otherwise every cleaning would list those of an hour.
SWEEP_EVERY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """A pipeline's rule for retained checkpoints: the newest `number`, at least one, those that completed less than
    `age` ago, and for `undo_within` after a restore, those that it has left behind."""

    number: int
    age: timedelta
    undo_within: timedelta


class Why(StrEnum):
    """The reason why a completed checkpoint is retained."""

    LATEST = "LATEST"  # the pipeline goes on from it
    UNNOTIFIED = "UNNOTIFIED"  # its sinks have not committed: its staged rows are still to be made visible
    SAVEPOINT = "SAVEPOINT"  # it is the user's, until it is disposed of
    RETAINED = "RETAINED"  # it is one of the newest
    RETAINED_UNTIL = "RETAINED_UNTIL"  # it is young enough
    UNDO_UNTIL = "UNDO_UNTIL"  # a restore has left it behind, and can be undone


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason, and its end in `until` if it ends by itself."""

    why: Why
    until: datetime | None = None


def find_reasons(
    retained: Sequence[CheckpointRecord], rule: RetentionRule, now: datetime
) -> dict[int, tuple[Reason, ...]]:
    """Find the reasons to retain each of the checkpoints that the pipeline has behind it, oldest first. A checkpoint
    without reasons need not be retained. Number and age count independently, like `retain_last` and `older_than` in
    Iceberg. Savepoints are not counted. Performs no I/O."""
    counted = [record.checkpoint_id for record in retained if record.kind is CheckpointKind.CHECKPOINT]
    newest, latest = set(counted[-max(rule.number, 1) :]), retained[-1:]
    found = {}
    for record in retained:
        reasons = [Reason(Why.LATEST)] if record in latest else []
        if record.notified_at is None:
            reasons.append(Reason(Why.UNNOTIFIED))
        if record.kind is not CheckpointKind.CHECKPOINT:
            reasons.append(Reason(Why.SAVEPOINT))
        else:
            assert record.completed_at is not None
            if record.checkpoint_id in newest:
                reasons.append(Reason(Why.RETAINED))
            if now - record.completed_at < rule.age:
                reasons.append(Reason(Why.RETAINED_UNTIL, record.completed_at + rule.age))
        found[record.checkpoint_id] = tuple(reasons)
    return found


def choose_subsumed(retained: Sequence[CheckpointRecord], rule: RetentionRule, now: datetime) -> list[int]:
    """Choose the ids to subsume, oldest first: those without a reason (`find_reasons`). Performs no I/O."""
    return [checkpoint_id for checkpoint_id, reasons in find_reasons(retained, rule, now).items() if not reasons]


def find_undo_reasons(
    abandoned: Sequence[CheckpointRecord], restores: Sequence[Restore], rule: RetentionRule, now: datetime
) -> dict[int, tuple[Reason, ...]]:
    """Find the reasons to retain checkpoints that a restore has left behind. Performs no I/O."""
    ends = undo_ends(abandoned, restores, rule.undo_within)
    found = {}
    for record in abandoned:
        reasons = [] if record.kind is CheckpointKind.CHECKPOINT else [Reason(Why.SAVEPOINT)]
        if (end := ends[record.checkpoint_id]) >= now:
            reasons.append(Reason(Why.UNDO_UNTIL, end))
        found[record.checkpoint_id] = tuple(reasons)
    return found


def choose_subsumed_on_cancellation(retained: Sequence[CheckpointRecord], keep: bool) -> list[int]:
    """Choose the ids to subsume when the pipeline is cancelled; none if the user retains them (`keep`). Performs no
    I/O."""
    return [] if keep else [r.checkpoint_id for r in retained if r.kind is CheckpointKind.CHECKPOINT]


def choose_unreferenced(found: Iterable[Deletion], live: set[Deletion]) -> list[Deletion]:
    """Choose the files in the directories of an ended checkpoint that nothing live refers to. A marker lives as long as
    the metadata that it marks. Performs no I/O."""
    return [deletion for deletion in found if live.isdisjoint((deletion, _marked(deletion)))]


def _marked(deletion: Deletion) -> Deletion | None:
    path = marked_by(deletion.path) if deletion.owner == STORAGE else None
    return None if path is None else Deletion(STORAGE, path)


def is_settled(ended_at: datetime, now: datetime) -> bool:
    """Whether the directories of a checkpoint that ended then need no further search. Performs no I/O."""
    return now - ended_at > SWEEP_FOR


def is_due(ended_at: datetime, last_sweep: datetime | None, now: datetime) -> bool:
    """Whether to search the directories of a checkpoint that ended then (again) now. Performs no I/O."""
    return last_sweep is None or is_over(last_sweep, SWEEP_EVERY, now) or is_settled(ended_at, now)
