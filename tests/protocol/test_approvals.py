"""What a person has approved does not hold again, and everything else does."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from cases import for_each

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Decision, Verdict
from tidegate.protocol.steps.approvals import MOST_ROWS, approved_with, with_approvals
from tidegate.protocol.steps.hold import decide_hold
from tidegate.protocol.steps.validate import find_complaints
from tidegate.protocol.steps.verdicts import failed_expectations

OUT, OTHER = Target.parse("sink:out"), Target.parse("sink:other")
HOUR = timedelta(hours=1)
HOLDS = {OUT: (HOUR, None), OTHER: (HOUR, None)}


def completed(checkpoint_id, approved=False):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    record = CheckpointRecord(
        pipeline_id="p", checkpoint_id=checkpoint_id, request_id="r", periodic=False, status=Status.COMPLETED,
        phase=None, triggered_at=moment, deadline=moment, num_subtasks=1, operators=(),
    )  # fmt: skip
    return replace(record, decision=Decision.APPROVED) if approved else record


def judged(*failing, target=OUT, kwargs=None, aborts=False):
    """A verdict whose first rule, which holds, these rows fail; None: it is not known which rows."""
    first = {"type": "between", "kwargs": kwargs or {"column": "n"}, "success": not failing}
    if failing and failing != (None,):
        first["failing"] = list(failing)
    results = (first, {"type": "not_null", "kwargs": {}, "success": not aborts})
    failed = bool(failing) + aborts
    return Verdict(target, "s", not failed, 2, failed, results)


NOTHING = Verdict(OUT, "s", True, 0, 0)


def after(*steps):
    """What is approved after checkpoints of which each has these verdicts, and is approved if it is held."""
    approvals = {}
    for number, verdict in enumerate(steps, 1):
        (told,) = with_approvals([verdict], approvals, HOLDS)
        held = decide_hold([OUT], [told], HOLDS) is not None
        approvals = approved_with(completed(number, held), [told])
    return approvals


def is_good(approvals, verdict, rules=HOLDS):
    (told,) = with_approvals([verdict], approvals, rules)
    good = not find_complaints([verdict.target], [told])
    assert (told.success is True, told.failed == 0) == (good, good)
    return good


@for_each(
    ("approvals", "verdict", "good"),
    [
        (after(), judged("a"), False),
        (after(judged("a")), judged("a"), True),
        (after(judged("a", "b")), judged("b"), True),
        (after(judged("a")), judged("a", "b"), False),
        (after(judged("a")), judged("b"), False),
        (after(judged("a")), judged(None), False),
        (after(judged(None)), judged(None), False),
        (after(judged("a")), judged("a", aborts=True), False),
        (after(judged("a", aborts=True)), judged("a"), False),
        (after(judged("a")), judged("a", target=OTHER), False),
        (after(judged("a")), judged("a", kwargs={"column": "n", "max_value": 9}), False),
        (after(judged("a")), replace(judged("a"), suite="t"), False),
        (after(judged("a"), judged("a"), judged("a")), judged("a"), True),
        (after(judged("a"), judged("a", "b")), judged("a", "b"), True),
        (after(judged("a"), judged(), judged()), judged("a"), True),
        (after(judged("a"), NOTHING, NOTHING), judged("a"), True),
        (after(judged("a"), judged("b"), judged()), judged("a", "b"), True),
    ],
)
def test_what_fails_is_good_if_all_of_it_was_approved(approvals, verdict, good):
    assert is_good(approvals, verdict) is good


def test_a_rule_that_no_longer_holds_takes_no_approval():
    assert not is_good(after(judged("a")), judged("a"), {OUT: (None, None)})


def test_only_a_checkpoint_that_a_person_approved_approves():
    assert approved_with(None, []) == {}
    assert approved_with(completed(1), [judged("a")]) == {}


def test_more_rows_than_are_told_apart_forget_the_oldest_approvals_and_hold_again():
    many = [f"row {number}" for number in range(MOST_ROWS)]
    approvals = after(judged("a"), judged(*many))
    assert is_good(approvals, judged(*many))
    assert not is_good(approvals, judged("a"))


def test_new_rows_next_to_approved_ones_are_what_the_hold_is_about():
    approvals = after(judged("a"))
    (told,) = with_approvals([judged("a", "b")], approvals, HOLDS)
    assert decide_hold([OUT], [told], HOLDS) == HOUR
    (told,) = with_approvals([judged("a")], approvals, HOLDS)
    (shown,) = failed_expectations([told])
    assert shown.observed == "approved with checkpoint 1"
