"""Which failed verdicts wait for a person, and what that person's decision leads to."""

from datetime import timedelta

import pytest
from cases import for_each
from records import at, completed, record

from tidegate.protocol.facts.errors import CheckpointHeldError, IllegalRequestError, NotHeldError, ValidationFailedError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Decided, Decision, Verdict
from tidegate.protocol.steps.hold import (
    LONGEST_COMMENT,
    AlreadyDecided,
    Decide,
    choose_held,
    decide_decision,
    decide_hold,
    is_approved,
    is_held,
    require_legal_decision,
)
from tidegate.protocol.steps.validate import needs_validation, permit

OUT, OP = Target.parse("sink:out"), Target.parse("state:op")
HOUR, TWO = timedelta(hours=1), timedelta(hours=2)
RULES = {OUT: (HOUR, TWO, None), OP: (TWO,)}
HELD = record(phase=Phase.HELD, num_acknowledged=2, acknowledged_at=at(1), held_at=at(2), held_until=at(3602),
              held_message="sink:out: 1 of 3 expectations failed.")  # fmt: skip
APPROVED = HELD.moved(phase=Phase.VALIDATED, validated_at=at(9), decision=Decision.APPROVED, decided_at=at(9),
                      decided_by="ada", decision_comment="it is right")  # fmt: skip
REJECTED = HELD.moved(status=Status.FAILED, failed_at=at(9), failure_reason=FailureReason.VALIDATION_REJECTED,
                      failure_message="no.", decision=Decision.REJECTED, decided_at=at(9),
                      decided_by="ada")  # fmt: skip
EXPIRED = HELD.moved(status=Status.FAILED, failed_at=at(9), failure_reason=FailureReason.HOLD_EXPIRED,
                     failure_message="too late.")  # fmt: skip


def verdict(target, *successes):
    results = tuple({"type": "t", "success": success} for success in successes)
    failed = sum(success is not True for success in successes)
    return Verdict(target, "s", None if None in successes else not failed, len(successes), failed, results, "e")


@for_each(
    ("out", "op", "hold_for"),
    [
        (verdict(OUT, False, True, True), verdict(OP, True), HOUR),
        (verdict(OUT, True, False, True), verdict(OP, True), TWO),
        (verdict(OUT, False, False, True), verdict(OP, False), HOUR),  # the shortest
        (verdict(OUT, True, True, True), verdict(OP, False), TWO),
        (verdict(OUT, True, True, False), verdict(OP, True), None),  # that rule aborts
        (verdict(OUT, False, True, False), verdict(OP, True), None),  # one of each
        (verdict(OUT, True, True, False), verdict(OP, False), None),
        (verdict(OUT, False, True, None), verdict(OP, True), None),  # it was not judged
        (verdict(OUT, False, True, True), Verdict(OP, "s", None, 0, 0, error="e"), None),
        (verdict(OUT, False, True, True), None, None),  # nor was this
        (Verdict(OUT, "s", False, 3, 1), verdict(OP, True), None),  # who failed is not said
        (verdict(OUT, False, True), verdict(OP, True), None),  # of another suite
        (Verdict(OUT, "s", False, 3, 1, ({"success": True},) * 3), verdict(OP, True), None),
        (verdict(OUT, True, True, True), verdict(OP, True), None),
    ],
)
def test_only_rules_that_all_say_so_wait_for_a_person(out, op, hold_for):
    assert decide_hold([OUT, OP], [each for each in (out, op) if each], RULES) == hold_for


def test_a_target_without_rules_never_waits():
    assert decide_hold([OUT], [verdict(OUT, False)], {}) is None


def decided(decision=Decision.APPROVED, seconds=9.0, by="ada", comment=None):
    return Decided(decision, at(seconds), by, comment)


def test_a_decision_is_recorded_and_an_approved_checkpoint_gets_time_to_complete():
    assert decide_decision(HELD, decided()) == Decide(decided(), at(3602))
    late = decided(seconds=3601)
    assert decide_decision(HELD, late) == Decide(late, at(3601 + 600)), "its timeout anew"


@for_each(("known", "decision"), [(APPROVED, Decision.APPROVED), (REJECTED, Decision.REJECTED)])
def test_the_same_decision_again_changes_nothing(known, decision):
    assert decide_decision(known, decided(decision, 9999, "grace")) == AlreadyDecided(known)


@for_each(
    ("known", "decision", "words"),
    [
        (APPROVED, Decision.REJECTED, r"approved by ada at 2026-01-01 12:00:09 UTC \(it is right\). That stands"),
        (REJECTED, Decision.APPROVED, "rejected by ada at 2026-01-01 12:00:09 UTC. That stands"),
        (EXPIRED, Decision.APPROVED, "it is FAILED, HOLD_EXPIRED. too late"),
        (record(), Decision.REJECTED, "it is TRIGGERED. Nothing was changed"),
        (completed(), Decision.APPROVED, "it is COMPLETED. Nothing was changed"),
    ],
)
def test_a_decision_too_late_says_what_is_so(known, decision, words):
    with pytest.raises(NotHeldError, match=words):
        decide_decision(known, decided(decision))


@for_each("decision", Decision)
def test_after_the_end_of_the_hold_nobody_decides(decision):
    decide_decision(HELD, decided(decision, 3601.9))
    with pytest.raises(NotHeldError, match="held until 2026-01-01 13:00:02 UTC, and that has passed"):
        decide_decision(HELD, decided(decision, 3602))


def test_who_names_no_checkpoint_means_the_one_that_is_held():
    assert choose_held("p", [record(2), HELD]) == HELD
    with pytest.raises(NotHeldError, match="No checkpoint of pipeline p waits for approval"):
        choose_held("p", [record(2)])


@for_each(
    ("by", "comment"),
    [("", None), (" ada", None), ("a\nb", None), ("a" * 201, None), ("a", "c" * (LONGEST_COMMENT + 1))],
)
def test_who_decides_has_a_name_and_a_comment_an_end(by, comment):
    with pytest.raises(IllegalRequestError, match="Nothing was changed"):
        require_legal_decision(decided(by=by, comment=comment))


def test_a_held_checkpoint_is_neither_judged_again_nor_permitted_to_complete():
    with pytest.raises(CheckpointHeldError, match=r"until 2026-01-01 13:00:02 UTC.*1 of 3.*`tidegate approve p 1`"):
        needs_validation(HELD)
    with pytest.raises(ValidationFailedError, match="was not approved yet"):
        permit(HELD)
    assert permit(APPROVED).record == APPROVED
    assert (is_held(HELD), is_held(APPROVED), is_held(EXPIRED)) == (True, False, False)
    assert (is_approved(HELD), is_approved(APPROVED), is_approved(REJECTED)) == (False, True, False)
