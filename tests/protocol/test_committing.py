"""Who commits the sinks of a checkpoint, and how long somebody else waits."""

from datetime import timedelta

from cases import for_each
from records import at

from tidegate.protocol.facts.errors import SinkError
from tidegate.protocol.steps.committing import (
    COMMIT_LEASE,
    POLL_EVERY,
    SIGN_EVERY,
    AlreadyDone,
    CommitterRecord,
    Take,
    WaitForCommitter,
    begun,
    decide_take,
    describe_failure,
    ended,
    is_committing,
    needs_sign,
)

NEVER = CommitterRecord()
FIRST = begun(NEVER, at(0))
SECOND = begun(FIRST, at(20))


def test_attempts_grow_and_only_the_newest_that_was_not_ended_commits():
    assert (FIRST.attempt, SECOND.attempt, begun(ended(SECOND), at(30)).attempt) == (1, 2, 3)
    assert is_committing(FIRST, 1)
    assert is_committing(SECOND, 2)
    assert not is_committing(SECOND, 1)
    assert not is_committing(SECOND, 3)
    assert not is_committing(ended(SECOND), 2)
    assert not is_committing(NEVER, 0)


def test_why_one_has_failed_is_known_until_another_ends():
    failed = ended(FIRST, "no space left")
    assert (failed.seen_at, begun(failed, at(20)).problem) == (None, "no space left")
    assert ended(begun(failed, at(20))).problem is None


@for_each(
    ("error", "said"),
    [
        (SinkError("postgres://ann:secret@db/mart is away."), "failed: postgres://***@db/mart is away."),
        (KeyError("x"), "failed: KeyError: 'x'"),
    ],
)
def test_what_is_kept_of_a_failure_has_no_secret(error, said):
    assert describe_failure("committing the sinks of checkpoint 3", error).endswith(said)


@for_each("committer", [NEVER, FIRST, ended(FIRST)])
def test_what_was_notified_is_not_committed_again(committer):
    assert decide_take(True, committer, None, at(0)) == AlreadyDone()


@for_each("committer", [NEVER, ended(FIRST)])
def test_nobody_who_commits_is_not_waited_for(committer):
    assert decide_take(False, committer, None, at(0)) == Take()


def test_one_that_commits_is_waited_for_until_its_lease_ends():
    assert decide_take(False, FIRST, None, at(1)) == WaitForCommitter(POLL_EVERY, FIRST, at(1))
    nearly = at(0) + COMMIT_LEASE - timedelta(milliseconds=5)
    assert decide_take(False, FIRST, None, nearly) == WaitForCommitter(timedelta(milliseconds=5), FIRST, nearly)
    assert decide_take(False, FIRST, None, at(0) + COMMIT_LEASE) == Take()


def test_one_whose_clock_is_ahead_is_waited_for_as_long_as_it_was_watched():
    ahead = begun(NEVER, at(5000))
    waited = decide_take(False, ahead, None, at(0))
    assert waited == WaitForCommitter(POLL_EVERY, ahead, at(0))
    again = decide_take(False, ahead, waited, at(3))
    assert again == WaitForCommitter(POLL_EVERY, ahead, at(0))
    assert decide_take(False, ahead, again, at(0) + COMMIT_LEASE) == Take()


@for_each("following", [CommitterRecord(1, at(8)), SECOND])
def test_a_sign_of_life_and_a_newer_one_are_waited_for_anew(following):
    waited = decide_take(False, FIRST, None, at(1))
    assert decide_take(False, following, waited, at(9)) == WaitForCommitter(POLL_EVERY, following, at(9))


def test_a_sign_of_life_is_due_well_within_the_lease():
    assert not needs_sign(at(0), at(0) + SIGN_EVERY - timedelta(milliseconds=1))
    assert needs_sign(at(0), at(0) + SIGN_EVERY)
    assert SIGN_EVERY * 3 < COMMIT_LEASE
    assert POLL_EVERY < SIGN_EVERY
