"""The smaller decisions: snapshot, validate, finalize, notify, abort and retention."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from cases import for_each
from records import at, completed, record, run_handle, subtask

from tidegate.protocol.cleaning.retention import (
    SWEEP_FOR,
    Reason,
    RetentionRule,
    Why,
    choose_subsumed,
    choose_unreferenced,
    find_reasons,
    find_undo_reasons,
    is_settled,
)
from tidegate.protocol.facts.branches import Restore
from tidegate.protocol.facts.errors import CheckpointNotInProgressError, PipelineDefinitionError, ValidationFailedError
from tidegate.protocol.facts.keygroups import KeyGroupRange
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    CheckpointKind,
    Deletion,
    HandleKind,
    OperatorPlan,
    Snapshot,
    SubtaskId,
    Verdict,
)
from tidegate.protocol.steps.abort import Abort, AlreadyEnded, decide_abort
from tidegate.protocol.steps.finalize import sizes
from tidegate.protocol.steps.notify import choose_unnotified, committables
from tidegate.protocol.steps.snapshot import needs_attempt, plan_attempt, require_same_plan
from tidegate.protocol.steps.validate import ValidatedCheckpoint, decide_rejection, needs_validation, permit

FAILED = record(
    3,
    status=Status.FAILED,
    failure_reason=FailureReason.VALIDATION_FAILED,
    failure_message="carrier was null.",
    failed_at=at(9),
)
ACKNOWLEDGED = record(phase=Phase.ACKNOWLEDGED, acknowledged_at=at(1), num_acknowledged=2)
VALIDATED = record(phase=Phase.VALIDATED, acknowledged_at=at(1), validated_at=at(2), num_acknowledged=2)
OUT = Target.parse("sink:out")
GOOD = Verdict(OUT, "s", True, 3, 0)


@for_each(("known", "needed"), [(record(), True), (ACKNOWLEDGED, False), (VALIDATED, False), (completed(), False)])
def test_snapshots_are_taken_only_while_they_are_waited_for(known, needed):
    assert needs_attempt(known) is needed


def test_a_step_after_an_abort_says_why_and_what_to_do():
    with pytest.raises(
        CheckpointNotInProgressError, match=r"VALIDATION_FAILED.*carrier was null.*clear the whole DAG run"
    ):
        needs_attempt(FAILED)


def test_a_later_attempt_is_asked_only_for_what_is_not_acknowledged():
    kept = Snapshot((run_handle("a", 1),))
    subtasks = {
        SubtaskId("op", 0): subtask(0, 1, acknowledged=True, snapshot=kept),
        SubtaskId("op", 1): subtask(1, 2),
    }
    task = plan_attempt(record(), subtasks, {})
    assert task.attempts == {SubtaskId("op", 1): 2}
    assert task.acknowledged == {SubtaskId("op", 0): kept}


@for_each(
    ("plan", "words"),
    [
        ([OperatorPlan("op", 3, 128)], "op had 2 subtasks of 128 key groups and has 3 subtasks of 128 key groups"),
        ([OperatorPlan("op", 2, 256)], "op had 2 subtasks of 128 key groups and has 2 subtasks of 256 key groups"),
        ([*record().operators, OperatorPlan("more", 1, 128)], "more is new"),
        ([OperatorPlan("other", 2, 128)], "other is new; op is gone"),
    ],
)
def test_only_the_definition_a_checkpoint_was_triggered_for_goes_on_with_it(plan, words):
    require_same_plan(record(), record().operators[::-1])
    with pytest.raises(PipelineDefinitionError, match=f"another definition of the pipeline: {words}. Nothing was run"):
        require_same_plan(record(), plan)


@for_each(
    ("verdicts", "words"),
    [
        ([], "sink:out: no verdict was given"),
        ([Verdict(OUT, "s", None, 0, 0, error="no column x")], "the validation itself failed: no column x"),
        ([Verdict(OUT, "s", False, 2, 1, ({"type": "t", "kwargs": {"column": "c"}, "success": False,
          "unexpected_count": 4, "unexpected_samples": [1, 2, 3, 4]},))],
         "t on c, 4 unexpected, such as \\[1, 2, 3\\]"),
        ([Verdict(Target.parse("sink:other"), "s", True, 1, 0)], "sink:out: no verdict"),
    ],
    ids=["missing", "raised", "failed", "of something else"],
)  # fmt: skip
def test_a_failed_raised_or_missing_verdict_rejects(verdicts, words):
    rejection = decide_rejection(ACKNOWLEDGED, [OUT], verdicts)
    assert rejection is not None
    assert re.search(words, rejection)
    assert "Nothing became visible" in rejection


def test_good_verdicts_of_every_target_do_not_reject():
    assert decide_rejection(ACKNOWLEDGED, [OUT], [GOOD]) is None
    assert decide_rejection(ACKNOWLEDGED, [], []) is None


def test_validation_waits_for_all_acknowledgements():
    with pytest.raises(ValidationFailedError, match="0 of 2 subtasks have acknowledged"):
        needs_validation(record())


def test_the_first_verdict_stands():
    assert needs_validation(ACKNOWLEDGED)
    assert not needs_validation(VALIDATED)
    assert not needs_validation(completed())


def test_only_a_validated_checkpoint_gets_a_permit():
    assert permit(VALIDATED).record == VALIDATED
    assert permit(completed()).record == completed()
    for known, error in [(record(), ValidationFailedError), (ACKNOWLEDGED, ValidationFailedError),
                         (FAILED, CheckpointNotInProgressError)]:  # fmt: skip
        with pytest.raises(error):
            permit(known)


def test_a_permit_cannot_be_forged():
    with pytest.raises(TypeError, match="permit only"):
        ValidatedCheckpoint(record(), object())


def subsumed(retained, number, age=timedelta(0), now=None):
    return choose_subsumed(retained, RetentionRule(number, age, timedelta(0)), now or at(1000))


@for_each(
    ("num_retained", "expected"), [(1, [1, 2, 3]), (2, [1, 2]), (4, []), (9, []), (0, [1, 2, 3]), (-5, [1, 2, 3])]
)
def test_the_oldest_give_way_and_the_newest_never_does(num_retained, expected):
    assert subsumed([completed(index) for index in (1, 2, 3, 4)], num_retained) == expected


@for_each(
    ("number", "age", "expected"),
    [
        (1, 0, [1, 2, 3, 4]),
        (1, 25, [1, 2, 3]),  # beyond the number, but young enough
        (1, 100, []),
        (3, 0, [1, 2]),
        (3, 15, [1, 2]),  # old, but among the newest
        (2, 35, [1, 2]),  # to the second: at its age it goes
        (2, 36, [1]),
        (5, 1, []),
    ],
)
def test_number_and_age_keep_each_for_itself(number, age, expected):
    retained = [completed(index, completed_at=at(10 * index)) for index in (1, 2, 3, 4, 5)]
    assert subsumed(retained, number, timedelta(seconds=age), at(55)) == expected


def test_savepoints_and_what_is_not_notified_outlive_number_and_age():
    retained = [
        completed(1, kind=CheckpointKind.SAVEPOINT),
        completed(2, notified_at=None),
        completed(3),
        completed(4, kind=CheckpointKind.SYNC_SAVEPOINT),
    ]
    assert subsumed(retained, 1) == []
    assert subsumed([*retained, completed(5)], 1) == [3]
    assert subsumed([completed(1)], 1, now=at(10**9)) == []


def test_each_reason_to_keep_a_checkpoint_is_said():
    rule = RetentionRule(1, timedelta(seconds=60), timedelta(seconds=600))
    retained = [completed(1, completed_at=at(0)), completed(2, completed_at=at(50)),
                completed(3, kind=CheckpointKind.SAVEPOINT, completed_at=at(60), notified_at=None)]  # fmt: skip
    assert find_reasons(retained, rule, at(70)) == {
        1: (),
        2: (Reason(Why.RETAINED), Reason(Why.RETAINED_UNTIL, at(110))),
        3: (Reason(Why.LATEST), Reason(Why.UNNOTIFIED), Reason(Why.SAVEPOINT)),
    }
    left = [completed(4, abandoned_by=1), completed(5, abandoned_by=1, kind=CheckpointKind.SAVEPOINT)]
    restores = [Restore(1, 3, 5, 5, at(100))]
    until = Reason(Why.UNDO_UNTIL, at(700))
    assert find_undo_reasons(left, restores, rule, at(700)) == {4: (until,), 5: (Reason(Why.SAVEPOINT), until)}
    assert find_undo_reasons(left, restores, rule, at(701)) == {4: (), 5: (Reason(Why.SAVEPOINT),)}


def test_a_checkpoint_whose_sinks_wait_for_their_commit_is_never_subsumed():
    retained = [completed(1), completed(2, notified_at=None), completed(3), completed(4)]
    assert subsumed(retained, 1) == [1, 3]


def test_notification_goes_in_order_and_includes_what_an_earlier_crash_left():
    retained = [
        completed(1),
        completed(2, notified_at=None),
        completed(3, notified_at=None),
        completed(4, notified_at=None),
    ]
    assert [known.checkpoint_id for known in choose_unnotified(retained)] == [2, 3, 4]
    assert [known.checkpoint_id for known in choose_unnotified(retained, up_to=3)] == [2, 3]


def test_committables_are_the_staged_files_of_one_sink_in_the_order_of_its_subtasks():
    staged = [run_handle(f"s{index}", 1, kind=HandleKind.STAGED) for index in range(3)]
    subtasks = {
        SubtaskId("out-sink", index): subtask(index, snapshot=Snapshot((staged[index], run_handle("r", 1))))
        for index in (2, 0, 1)
    }
    assert committables(subtasks, "out-sink") == tuple(staged)
    assert committables(subtasks, "other-sink") == ()


def test_only_what_is_in_progress_can_be_aborted():
    assert decide_abort(record()) == Abort()
    assert decide_abort(VALIDATED) == Abort()
    assert decide_abort(FAILED) == AlreadyEnded(FAILED)
    assert decide_abort(completed()) == AlreadyEnded(completed())


def test_files_found_that_nothing_live_refers_to_are_chosen():
    a, b, c, theirs, mine, marker = (
        Deletion(owner, path)
        for owner, path in [
            *(("storage", f"p/chk-1/op/{name}") for name in "abc"),
            ("sink:op", "_staging/chk-1/_committed"),
            ("storage", "p/chk-1/_metadata"),
            ("storage", "p/chk-1/_committed"),
        ]
    )
    assert choose_unreferenced([a, b, c, theirs, marker, mine], {b}) == [a, c, theirs, marker, mine]
    assert choose_unreferenced([marker, mine, theirs], {mine}) == [theirs]


def test_directories_are_looked_through_until_a_superseded_driver_must_be_gone():
    assert not is_settled(at(0), at(0) + SWEEP_FOR)
    assert is_settled(at(0), at(1) + SWEEP_FOR)


def test_sizes_count_carried_files_in_full_and_not_as_checkpointed():
    mine = Snapshot((run_handle("a", 1, bytes=100), run_handle("b", 2, bytes=7)))
    assert sizes(2, {SubtaskId("op", 0): mine, SubtaskId("op", 1): Snapshot()}) == (107, 7)


def test_a_run_that_subtasks_share_after_a_rescale_counts_once():
    shared, own = run_handle("a", 1, bytes=100), run_handle("b", 2, bytes=7)
    slices = {
        SubtaskId("op", index): Snapshot((replace(shared, key_groups=KeyGroupRange(index, index)), own))
        for index in range(4)
    }
    assert sizes(2, slices) == (107, 7)
    staged = {SubtaskId(f"{name}-sink", 0): Snapshot((replace(own, kind=HandleKind.STAGED),)) for name in "xy"}
    assert sizes(2, staged) == (14, 14), "two sinks may call a file the same"


def test_savepoints_are_not_counted_among_the_retained():
    kinds = [
        CheckpointKind.CHECKPOINT,
        CheckpointKind.SAVEPOINT,
        CheckpointKind.CHECKPOINT,
        CheckpointKind.SYNC_SAVEPOINT,
    ]
    retained = [completed(number, kind=kind) for number, kind in enumerate(kinds * 2, start=1)]
    assert subsumed(retained, 5) == []
    assert subsumed(retained, 4) == []
    assert subsumed(retained, 3) == [1]
    assert subsumed(retained, 2) == [1, 3]
    assert subsumed(retained, 1) == [1, 3, 5]
