"""The history rule: how long the subtasks of ended checkpoints stay on record before they are rolled up into totals."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind, CheckpointRecord

#: A transaction rolls up no more than this, because the pipeline's other transactions wait for it.
MOST_CHECKPOINTS, MOST_SUBTASKS = 500, 2_000
#: The time until the next roll-up by a process that has rolled up everything due.
ROLLUP_INTERVAL = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """The rule for roll-ups: checkpoints that are not among the `number` newest, by their ids, and those that ended
    longer than `age` ago. None is no bound."""

    number: int | None
    age: timedelta | None


def choose_for_rollup(
    not_rolled_up: Sequence[CheckpointRecord], last_checkpoint_id: int, rule: HistoryRule, now: datetime
) -> list[int]:
    """Choose the ids to roll up now, oldest first: never a savepoint, a checkpoint whose state is kept or not yet
    deleted, or one whose sinks have not been notified. Performs no I/O."""
    chosen: list[int] = []
    subtasks = 0
    for record in not_rolled_up:
        if not (may_be_rolled_up(record) and _is_due(record, last_checkpoint_id, rule, now)):
            continue
        subtasks += record.num_subtasks
        if chosen and (subtasks > MOST_SUBTASKS or len(chosen) >= MOST_CHECKPOINTS):
            break
        chosen.append(record.checkpoint_id)
    return chosen


def may_be_rolled_up(record: CheckpointRecord) -> bool:
    """Whether the checkpoint's subtasks and files are not needed any more, whatever happens."""
    if record.kind is not CheckpointKind.CHECKPOINT:
        return False
    gone = record.status is Status.DISCARDED and record.notified_at is not None
    return gone or record.status is Status.FAILED


def _is_due(record: CheckpointRecord, last_checkpoint_id: int, rule: HistoryRule, now: datetime) -> bool:
    ended_at = record.completed_at or record.failed_at
    assert ended_at is not None
    is_old = rule.age is not None and now - ended_at > rule.age
    return is_old or (rule.number is not None and record.checkpoint_id <= last_checkpoint_id - rule.number)
