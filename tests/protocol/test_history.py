"""Which checkpoints are rolled up, a case a line."""

from datetime import timedelta

from cases import for_each
from records import T0, completed

from tidegate.protocol.cleaning import rollup as history
from tidegate.protocol.cleaning.rollup import HistoryRule, choose_for_rollup, may_be_rolled_up
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointKind

HOUR = timedelta(hours=1)
NOW = T0 + 10 * HOUR


def ended(number, hours_ago=5.0, **changes):
    at = NOW - hours_ago * HOUR
    known = {"status": Status.DISCARDED, "completed_at": at, "notified_at": at}
    return completed(number).moved(**known | changes)


def failed(number, hours_ago=5.0, **changes):
    at = NOW - hours_ago * HOUR
    known = {"status": Status.FAILED, "completed_at": None, "notified_at": None, "failed_at": at}
    return completed(number).moved(**known | {"failure_reason": FailureReason.TASK_FAILURE} | changes)


@for_each(
    ("record", "expected"),
    [
        (ended(1), True),
        (failed(1), True),
        (ended(1, notified_at=None), False),
        (ended(1, status=Status.SUBSUMED), False),
        (ended(1, status=Status.COMPLETED), False),
        (ended(1, status=Status.COMPLETED, abandoned_by=1), False),
        (ended(1, status=Status.IN_PROGRESS, completed_at=None, notified_at=None), False),
        (ended(1, kind=CheckpointKind.SAVEPOINT), False),
        (ended(1, kind=CheckpointKind.SYNC_SAVEPOINT), False),
        (failed(1, kind=CheckpointKind.SAVEPOINT), False),
    ],
)
def test_only_what_nobody_needs_may_be_rolled_up(record, expected):
    assert may_be_rolled_up(record) == expected
    assert choose_for_rollup([record], 99, HistoryRule(1, None), NOW) == [1] * expected


@for_each(
    ("number", "age", "expected"),
    [
        (None, None, []),
        (100, 9 * HOUR, []),
        (3, None, [1, 2]),
        (1, None, [1, 2, 3, 4]),
        (None, 5 * HOUR, [1]),
        (None, 4 * HOUR, [1, 2]),
        (4, 4 * HOUR, [1, 2]),
        (2, 9 * HOUR, [1, 2, 3]),
    ],
)
def test_whichever_bound_comes_first(number, age, expected):
    """Of five checkpoints, the newest ids; the first ended six hours ago, the others five, three, two and one."""
    known = [ended(1, 6), failed(2), ended(3, 3), ended(4, 2), ended(5, 1)]
    assert choose_for_rollup(known, 5, HistoryRule(number, age), NOW) == expected


def test_a_portion_is_bounded_and_never_empty(monkeypatch):
    known = [ended(number, num_subtasks=10) for number in range(1, 9)]
    everything = HistoryRule(1, None)
    monkeypatch.setattr(history, "MOST_SUBTASKS", 25)
    assert choose_for_rollup(known, 99, everything, NOW) == [1, 2]
    monkeypatch.setattr(history, "MOST_SUBTASKS", 5)
    assert choose_for_rollup(known, 99, everything, NOW) == [1]
    monkeypatch.setattr(history, "MOST_SUBTASKS", 1000)
    monkeypatch.setattr(history, "MOST_CHECKPOINTS", 3)
    assert choose_for_rollup(known, 99, everything, NOW) == [1, 2, 3]
