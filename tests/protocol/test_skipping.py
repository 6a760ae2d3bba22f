"""Who may skip rows that a source has lost, from where the pipeline goes on, and what a restore meets again."""

from dataclasses import replace

import pytest
from cases import for_each
from records import at, record

from tidegate.protocol.facts.branches import Branch
from tidegate.protocol.facts.errors import SkipRefusedError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.pipelines import PipelineRecord, PipelineStatus
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle, SubtaskId
from tidegate.protocol.recovery.skipping import (
    LostRows,
    SkipPlan,
    SourceSkip,
    apply_skips,
    listed,
    require_as_planned,
    require_lost,
    require_skippable,
    segments_in_flight,
    skipped_since,
    with_segments,
)

CLICKS, OP = SubtaskId("clicks", 0), SubtaskId("op", 0)
LATEST = record(7).moved(status=Status.COMPLETED, completed_at=at(5))
LOST = LostRows("0", 5, 99, 100)


def skip(checkpoint_id=7, position=None, subtask=CLICKS, lost=(LOST,)):
    return SourceSkip("clicks", checkpoint_id, subtask, position or {"to": 100}, tuple(lost), at(1))


def status(status):
    return replace(PipelineRecord("p"), status=status)


@for_each(
    ("pipeline", "latest", "phases", "is_live", "said"),
    [
        (PipelineStatus.RUNNING, LATEST, [], False, None),
        (PipelineStatus.SUSPENDED, LATEST, [Phase.TRIGGERED, Phase.TRIGGERED], False, None),
        (PipelineStatus.FAILED, LATEST, [], False, None),
        (PipelineStatus.FINISHED, LATEST, [], False, "is FINISHED, and reads nothing any more"),
        (PipelineStatus.CANCELLED, LATEST, [], False, "is CANCELLED"),
        (PipelineStatus.RUNNING, LATEST, [], True, "may have read them.*`tidegate suspend p`, repeat this"),
        (PipelineStatus.RUNNING, LATEST, [Phase.ACKNOWLEDGED], False, "8 has read all.*`tidegate abort p 8`"),
        (PipelineStatus.RUNNING, LATEST, [Phase.TRIGGERED, Phase.HELD], False, "9 has read all"),
        (PipelineStatus.RUNNING, LATEST, [Phase.VALIDATED], False, "8 has read all"),
        (PipelineStatus.RUNNING, None, [], False, "begin at their start.*`tidegate abort p`"),
    ],
)
def test_rows_that_somebody_has_read_are_not_skipped(pipeline, latest, phases, is_live, said):
    going = [record(8 + number).moved(phase=phase) for number, phase in enumerate(phases)]
    if said is None:
        assert require_skippable("clicks", status(pipeline), latest, going, is_live) is latest
    else:
        with pytest.raises(SkipRefusedError, match=f"source clicks of pipeline p.*{said}.*Nothing was changed"):
            require_skippable("clicks", replace(status(pipeline), pipeline_id="p"), latest, going, is_live)


def test_the_newest_skip_of_a_checkpoint_is_where_it_is_gone_on_from_and_those_of_others_are_not():
    handle = StateHandle("f", HandleKind.POSITION, 1, 1, "0", 7)
    snapshots = {CLICKS: Snapshot((handle,), {"to": 5}), OP: Snapshot((), {"mark": 1})}
    found = apply_skips(snapshots, 7, [skip(7, {"to": 100}), skip(6, {"to": 1}), skip(7, {"to": 300})])
    assert found == {CLICKS: Snapshot((handle,), {"to": 300}), OP: Snapshot((), {"mark": 1})}
    assert snapshots[CLICKS].position == {"to": 5}
    assert apply_skips(snapshots, 8, [skip(7)]) == snapshots
    assert apply_skips({OP: snapshots[OP]}, 7, [skip(7)]) == {OP: snapshots[OP]}


def test_segments_in_flight_are_cut_where_rows_are_lost_and_the_order_stays():
    data = [{"split": 0, "reference": {"from": n, "to": n + 10}, "bytes": 9, "event_time": 4} for n in (0, 10, 20)]
    exchanged = {"handles": []}
    flight = [["clicks/0", data[0]], ["clicks/0", data[1]], ["other/0", data[2]], ["clicks", exchanged]]
    position = {"watermarks": {"clicks": 3}, "in_flight": flight}
    found = list(segments_in_flight({OP: Snapshot((), position), CLICKS: Snapshot()}, {"clicks"}))
    assert found == [(OP, 0, {"from": 0, "to": 10}), (OP, 1, {"from": 10, "to": 20})]
    left = with_segments(position, {0: None, 1: {"from": 15, "to": 20}})
    kept = {**data[1], "reference": {"from": 15, "to": 20}}
    assert left == {**position, "in_flight": [["clicks/0", kept], ["other/0", data[2]], ["clicks", exchanged]]}


def test_a_plan_holds_for_one_moment():
    plan = SkipPlan("clicks", LATEST, (8,), (skip(),), {CLICKS: {"to": 5}})
    now = {CLICKS: Snapshot((), {"to": 5}), OP: Snapshot()}
    require_as_planned(plan, LATEST, now)
    for latest, snapshots in (
        (record(8), now),
        (LATEST, {CLICKS: Snapshot((), {"to": 90})}),
        (LATEST, {OP: Snapshot()}),
    ):
        with pytest.raises(SkipRefusedError, match="Make a new plan"):
            require_as_planned(plan, latest, snapshots)
    with pytest.raises(SkipRefusedError, match="It has lost nothing since checkpoint 7"):
        require_lost("clicks", replace(plan, skips=()))


def test_what_is_lost_is_said_in_the_order_of_the_parts():
    rows = [LostRows("10", 1, None, None), LostRows("2", 3, None, 0), LOST]
    plan = SkipPlan("clicks", LATEST, (), (skip(lost=rows[:2]), skip(lost=rows[2:])))
    assert plan.sentence() == (
        f"Source clicks of pipeline {LATEST.pipeline_id} goes on after checkpoint 7 without rows that it has lost: "
        "0: 5 to 99 (goes on at 100); 2: 3 and later (goes on at 0); 10: 1 and later (the part is gone)."
    )
    assert listed([LOST] * 12).endswith("goes on at 100); and of 2 more parts")


def test_a_restore_meets_again_what_was_skipped_after_the_checkpoint_it_leads_to():
    skips = [skip(5), skip(7, subtask=OP), skip(7, lost=[LostRows("1", 0, 4, 5)]), skip(9)]
    found = skipped_since(skips, 5, Branch(((1, 8),)))
    assert [(each.checkpoint_id, [rows.part for rows in each.lost]) for each in found] == [(7, ["0", "1"])]
    assert "skipped after checkpoint 7" in str(found[0])
    assert "Skip them again with `tidegate source skip`" in str(found[0])
    assert skipped_since(skips, 7, Branch(((1, 8),))) == ()
