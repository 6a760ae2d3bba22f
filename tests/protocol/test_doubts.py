"""Why tables do not show what has completed, what readers see meanwhile, and what to do."""

import pytest
from records import T0, at, completed

from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.records import OperatorPlan
from tidegate.protocol.observing.doubts import DoubtFacts, DoubtReason, find_doubts
from tidegate.protocol.steps.committing import COMMIT_LEASE, CommitterRecord

PLAN = tuple(OperatorPlan(id_, 1, 8) for id_ in ("op", "mart-sink", "files-sink"))
LEASE = COMMIT_LEASE.total_seconds()


def waiting(id_=5, **changes):
    return completed(id_, **({"operators": PLAN, "notified_at": None, "completed_at": T0} | changes))


def found(*unnotified, restores=(), restored=None, shown=4, committer=None, now=0):
    facts = DoubtFacts("p", unnotified, restores, restored, shown, committer or CommitterRecord())
    return find_doubts(facts, at(now))


@pytest.mark.parametrize(
    ("committer", "reason", "why"),
    [
        (CommitterRecord(), DoubtReason.NOT_BEGUN, "no other one has begun it"),
        (CommitterRecord(7, at(50)), DoubtReason.COMMITTING, "Attempt 7 is in progress"),
        (CommitterRecord(7, at(50), "The disk is full."), DoubtReason.COMMITTING, "Before it: The disk is full."),
        (CommitterRecord(7, at(50 - LEASE)), DoubtReason.STOPPED, "its process has stopped"),
        (CommitterRecord(7, None, "The disk is full."), DoubtReason.FAILED, "The disk is full."),
        (CommitterRecord(7, None), DoubtReason.NOT_BEGUN, "no other one has begun it"),
    ],
)
def test_the_committer_says_why(committer, reason, why):
    (doubt,) = found(waiting(), committer=committer, now=50)
    assert (doubt.reason, doubt.since, doubt.problem) == (reason, T0, committer.problem)
    assert why in doubt.why
    assert ("tidegate run p" in doubt.advice) is (reason is not DoubtReason.COMMITTING)


def test_readers_of_each_table_may_see_the_one_before_or_this_one():
    (doubt,) = found(waiting())
    assert doubt.sinks == ("mart", "files")
    assert doubt.readers == (
        "Tables mart and files may still show checkpoint 4, or checkpoint 5 already. tidegate.read gives checkpoint 4 "
        "of them."
    )
    (doubt,) = found(waiting(1), shown=None)
    assert doubt.readers == "Tables mart and files may still show nothing yet, or checkpoint 1 already."


def test_a_sink_in_the_commit_is_never_in_doubt():
    (doubt,) = found(waiting(committed_sinks=("mart-sink",)))
    assert doubt.sinks == ("files",)
    assert "Table mart showed it as soon as it completed." in doubt.readers
    assert found(waiting(committed_sinks=("mart-sink", "files-sink"))) == []
    restored = waiting(2, notified_at=T0, committed_sinks=("mart-sink", "files-sink"))
    assert found(restores=[Restore(1, 2, 5, 5, at(9))], restored=restored) == []


def test_a_restore_comes_before_checkpoints():
    restored = waiting(2, notified_at=T0, committed_sinks=("mart-sink",))
    going_back, later = found(waiting(6), restores=[Restore(3, 2, 5, 5, at(9))], restored=restored, shown=2)
    assert (going_back.checkpoint_id, going_back.restore, going_back.since) == (2, 3, at(9))
    assert going_back.readers == (
        "Table files may still show checkpoint 5, or checkpoint 2 already. tidegate.read gives checkpoint 2."
    )
    assert (later.checkpoint_id, later.reason, later.problem) == (6, DoubtReason.RESTORING, None)


def test_nothing_is_in_doubt_of_a_restore_that_all_have_followed():
    assert found(restores=[Restore(3, 2, 5, 5, at(9), rewound_at=at(10))], restored=None) == []
