"""protocol.md section 13: who is triggered, waited for and notified when a part of the pipeline has finished;
what may not."""

import re

import pytest
from cases import for_each
from records import at, completed, record, run_handle

from tidegate.protocol.facts.errors import StateSchemaError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import HandleKind, OperatorPlan, Snapshot, SubtaskId, SubtaskRecord
from tidegate.protocol.steps.finished import (
    CheckpointPlan,
    choose_notified,
    choose_triggered,
    decide_trigger,
    finished_operators,
    plan_checkpoint,
    require_legal_restore,
)
from tidegate.protocol.steps.restored_snapshots import restore_snapshots

# bounded and live are sources of two splits; only reads bounded, both reads the two; each is followed by a sink.
UPSTREAMS = {"only": ["bounded"], "both": ["only", "live"], "only-sink": ["only"], "both-sink": ["both"]}
ALL = ["bounded", "live", "only", "both", "only-sink", "both-sink"]


def plans(operators=ALL, **parallelism):
    return [OperatorPlan(name, parallelism.get(name, 2), 8) for name in operators]


def subtasks(operators=ALL):
    return [SubtaskId(name, index) for name in operators for index in range(2)]


def snapshots(*finished, operators=ALL):
    """`bounded/0` names a split, `bounded` all of an operator."""
    return {
        id_: Snapshot((), {"n": 1}, finished=str(id_) in finished or id_.operator_id in finished)
        for id_ in subtasks(operators)
    }


@for_each(
    ("finished", "from_the_start", "triggered"),
    [
        ((), set(), ["bounded", "live"]),
        (("bounded/0",), {"bounded/0"}, ["bounded", "live"]),
        (("bounded",), {"bounded/0", "bounded/1"}, ["live", "only"]),
        (("bounded", "only"), {"bounded/0", "bounded/1", "only/0", "only/1"}, ["live", "only-sink"]),
        (("bounded", "only", "only-sink", "live"),
         {f"{name}/{i}" for name in ("bounded", "only", "only-sink", "live") for i in (0, 1)}, ["both"]),
    ],
)  # fmt: skip
def test_the_plan_waits_for_who_runs_and_triggers_whom_nobody_upstream_would(finished, from_the_start, triggered):
    restored = snapshots(*finished)
    plan = plan_checkpoint(subtasks(), restored, set())
    assert {str(id_) for id_ in plan.finished} == from_the_start
    assert [str(id_) for id_ in plan.wait] == [str(id_) for id_ in subtasks() if str(id_) not in from_the_start]
    waited_for = list(dict.fromkeys(id_.operator_id for id_ in plan.wait))
    done = finished_operators(plans(), restored)
    assert [id_ for id_ in choose_triggered(waited_for, done, UPSTREAMS) if id_ not in done] == triggered


def test_who_has_finished_counts_from_the_start_with_its_snapshot_and_sizes_of_nothing():
    run, staged = run_handle("run", 3), run_handle("staged", 3, kind=HandleKind.STAGED)
    restored = {
        SubtaskId("only", 0): Snapshot((run,), None, True),
        SubtaskId("only-sink", 0): Snapshot((staged,), None, True),
    }
    reports = {ack.subtask: ack for ack in plan_checkpoint(list(restored), restored, set()).acknowledgements()}
    assert {ack.attempt for ack in reports.values()} == {0}
    assert reports[SubtaskId("only", 0)].snapshot == Snapshot((run,), None, True)
    assert reports[SubtaskId("only-sink", 0)].snapshot == Snapshot((), None, True), "it would be committed again"
    for ack in reports.values():
        assert ack.snapshot.checkpointed_size(4) == 0
        assert {ack.metrics.start_delay, ack.metrics.sync_duration, ack.metrics.processed_bytes} == {0}


def test_a_sink_of_current_rows_is_asked_to_the_end():
    plan = plan_checkpoint(subtasks(), snapshots(*ALL), {"both-sink"})
    assert {id_.operator_id for id_ in plan.wait} == {"both-sink"}
    done = finished_operators(plans(), snapshots(*ALL))
    assert choose_triggered(["both-sink"], done, UPSTREAMS) == ["both-sink"]


def test_only_who_was_asked_is_notified():
    known = {
        SubtaskId("bounded-sink", 0): SubtaskRecord(SubtaskId("bounded-sink", 0), 0, at(1), Snapshot(finished=True)),
        SubtaskId("live-sink", 0): SubtaskRecord(SubtaskId("live-sink", 0), 2, at(1)),
    }
    assert choose_notified(known, ()) == {"live-sink"}


def test_a_sink_that_keeps_what_each_checkpoint_showed_is_notified_of_each():
    id_ = SubtaskId("kept-sink", 0)
    known = {id_: SubtaskRecord(id_, 0, at(1), Snapshot(finished=True))}
    assert choose_notified(known, {"kept-sink", "no-sink"}) == {"kept-sink"}


WAITING = CheckpointPlan({}, [SubtaskId("live", 0)])


@for_each(
    ("latest", "plan", "switch", "words"),
    [
        (None, WAITING, False, None),
        (completed(), WAITING, False, None),
        (completed(num_finished=1), WAITING, True, None),
        (completed(7, num_finished=1), WAITING, False, "1 of 2 subtasks .* finished with checkpoint 7"),
        (completed(7, num_finished=1), CheckpointPlan({}, []), True, "no subtask is left to take a checkpoint"),
    ],
)
def test_no_checkpoint_begins_after_a_split_has_finished_if_that_is_switched_off_or_if_nobody_is_left(
    latest, plan, switch, words
):
    dropped = decide_trigger(latest, plan, switch)
    if words is None:
        assert dropped is None
    else:
        assert dropped.reason is FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        assert dropped.reason.pre_flight
        assert not dropped.reason.counts
        assert re.search(words, dropped.message)


@for_each(
    ("finished", "upstreams", "wrong"),
    [
        (("bounded", "only"), UPSTREAMS, None),
        (("bounded/1",), UPSTREAMS, None),
        (("bounded", "only", "live", "both"), UPSTREAMS, None),
        (("bounded", "only"), {**UPSTREAMS, "only": ["bounded", "live"]}, "only of pipeline p .* now reads live"),
        (("bounded/1", "only"), UPSTREAMS, "only .* now reads bounded"),
        (("bounded/1", "only/0"), UPSTREAMS, "only .* now reads bounded"),
        (("only-sink",), UPSTREAMS, "only-sink .* now reads only"),
    ],
)
def test_what_has_finished_must_stay_behind_what_has_finished(finished, upstreams, wrong):
    latest = completed(operators=tuple(plans()))
    if wrong is None:
        require_legal_restore(latest, plans(), snapshots(*finished), upstreams)
    else:
        with pytest.raises(StateSchemaError, match=wrong):
            require_legal_restore(latest, plans(), snapshots(*finished), upstreams)


def test_an_operator_may_be_added_behind_what_has_finished():
    restored = snapshots("bounded")
    del restored[SubtaskId("only", 0)], restored[SubtaskId("only", 1)]
    require_legal_restore(completed(operators=tuple(plans())), plans(), restored, UPSTREAMS)
    done = finished_operators(plans(), restored)
    assert "only" in choose_triggered(["only"], done, UPSTREAMS)


@for_each(("before", "after"), [(2, 3), (3, 2), (2, 1)])
@for_each("finished", [{0}, {0, 1}])
def test_the_number_of_splits_cannot_change_once_one_has_finished(before, after, finished):
    old, new = OperatorPlan("bounded", before, 8), OperatorPlan("bounded", after, 8)
    latest = completed(operators=(old,))
    taken = {SubtaskId("bounded", i): Snapshot((), {"n": 1}, i in finished) for i in range(before)}
    restored = restore_snapshots(latest, taken, [new], [], False)
    with pytest.raises(StateSchemaError, match=f"it had {before} splits. Now it has {after}"):
        require_legal_restore(latest, [new], restored, {})


def test_an_operator_that_has_finished_may_be_rescaled_and_stays_finished():
    old, new = OperatorPlan("only", 2, 8), OperatorPlan("only", 3, 8)
    latest = completed(operators=(old,))
    taken = {SubtaskId("only", index): Snapshot(finished=True) for index in range(2)}
    restored = restore_snapshots(latest, taken, [new], [], False)
    assert finished_operators([new], restored) == {"only"}


def test_the_metadata_marks_what_has_finished():
    from tidegate.protocol.recovery.metadata import Metadata, metadata_document

    known = {
        SubtaskId("op", index): SubtaskRecord(SubtaskId("op", index), 1, at(1), Snapshot(finished=index == 0))
        for index in range(2)
    }
    document = metadata_document(Metadata(record(), known), {}, {})
    assert [subtask["finished"] for subtask in document["operators"][0]["subtasks"]] == [True, False]
