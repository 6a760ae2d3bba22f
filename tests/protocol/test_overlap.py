"""Checkpoints that overlap: who starts, which is judged, who waits, and which staged files count."""

from datetime import timedelta

import pytest
from cases import for_each
from records import T0, record

from tidegate.protocol.continuous.overlap import (
    FOLLOWS,
    choose_overtaken,
    choose_to_complete,
    concurrency,
    find_overtaking,
    find_unwanted,
    follows_at_once,
    has_versions,
    is_forced,
    require_no_earlier_savepoint,
    wanted,
)
from tidegate.protocol.continuous.regions import REGION_LEASE, RegionRecord
from tidegate.protocol.facts.errors import EarlierSavepointError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.records import (
    CheckpointKind,
    CheckpointRequest,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskRecord,
)

NONE = RegionRecord()
LIVE = RegionRecord(3, T0, T0)
LATER = T0 + timedelta(seconds=5)
DEAD = T0 + REGION_LEASE + timedelta(seconds=1)
SINK = SubtaskId("out-sink", 0)


@for_each(
    ("region", "now", "at_once"), [(NONE, LATER, 1), (LIVE, LATER, 4), (LIVE, DEAD, 1)], ids=["none", "live", "dead"]
)
def test_only_a_region_that_lives_takes_several_at_once(region, now, at_once):
    assert concurrency(region, 4, now) == at_once


@for_each("kind", CheckpointKind)
@for_each("unaligned", [False, True])
@for_each(("region", "now"), [(NONE, LATER), (LIVE, LATER), (LIVE, DEAD)])
def test_savepoints_of_a_continuous_run_are_forced_unless_barriers_may_overtake(kind, unaligned, region, now):
    request = CheckpointRequest("r", kind, False, False, T0, T0)
    forced = kind is not CheckpointKind.CHECKPOINT and not unaligned and (region, now) == (LIVE, LATER)
    assert is_forced(request, region, unaligned, now) is forced


def going(id_, phase="ACKNOWLEDGED", kind="CHECKPOINT", status="IN_PROGRESS"):
    return record(id_, phase=Phase(phase), kind=CheckpointKind(kind), status=Status(status))


@for_each(
    ("in_progress", "chosen"),
    [
        ([], None),
        ([going(1, "TRIGGERED")], None),
        ([going(1)], 1),
        ([going(1), going(2), going(3, "TRIGGERED")], 2),
        ([going(1, "HELD"), going(2)], 2),
        ([going(1, "HELD"), going(2, "HELD")], None),
        ([going(1, "VALIDATED"), going(2)], 1),
        ([going(1, "VALIDATED"), going(2, "VALIDATED"), going(3)], 2),
        ([going(1, "VALIDATED", status="COMPLETED"), going(2, "VALIDATED")], 1),
        ([going(1, "TRIGGERED", "SAVEPOINT"), going(2)], None),
        ([going(1), going(2, "TRIGGERED", "SAVEPOINT"), going(3)], 1),
        ([going(1), going(2, kind="SAVEPOINT"), going(3)], 2),
        ([going(1, "HELD", "SAVEPOINT"), going(2)], None),
    ],
)
def test_the_newest_is_judged_unless_an_older_savepoint_has_to_end_first(in_progress, chosen):
    found = choose_to_complete(in_progress)
    assert (None if found is None else found.checkpoint_id) == chosen


def test_nobody_judges_a_checkpoint_before_an_older_savepoint_has_ended():
    others = [going(1), going(2, "TRIGGERED", "SAVEPOINT"), going(4, kind="SAVEPOINT")]
    require_no_earlier_savepoint(going(2, kind="SAVEPOINT"), others)
    require_no_earlier_savepoint(going(1), others)
    with pytest.raises(EarlierSavepointError, match="Checkpoint 3 of pipeline p waits for savepoint 2"):
        require_no_earlier_savepoint(going(3), others)


def test_one_that_completes_subsumes_older_checkpoints_and_no_savepoint():
    others = [going(1, "TRIGGERED"), going(2, kind="SAVEPOINT"), going(3, "HELD"), going(5)]
    assert [each.checkpoint_id for each in choose_overtaken(4, others)] == [1, 3]


@for_each(
    ("others", "newer"),
    [([going(1)], None), ([going(1), going(2)], None), ([going(2, "HELD")], None), ([going(2, "VALIDATED")], 2)],
)
def test_one_whose_rows_a_verdict_on_a_newer_one_includes_completes_no_more(others, newer):
    found = find_overtaking(1, others)
    assert (None if found is None else found.checkpoint_id) == newer


def test_after_its_predecessor_a_checkpoint_has_nothing_older_next_to_it():
    done = [going(id_, "VALIDATED", status="COMPLETED") for id_ in (3, 5)]
    assert follows_at_once(6, done)
    assert not follows_at_once(5, done)
    assert not follows_at_once(1, [])


def staged(path, follows=None):
    details = {} if follows is None else {FOLLOWS: follows}
    return StateHandle(path, HandleKind.STAGED, 1, 1, "", 6, details=details)


VERSIONS = {
    SINK: SubtaskRecord(
        SINK, 1, T0,
        Snapshot((staged("all", [0, 3]), staged("after 3", [3, 5]), staged("after 5", [5, None]), staged("any"))),
    )
}  # fmt: skip


@for_each(
    ("latest", "counts"),
    [(None, "all"), (2, "all"), (3, "after 3"), (4, "after 3"), (5, "after 5")],
)
def test_the_version_counts_that_follows_the_latest_completed_checkpoint(latest, counts):
    completed = None if latest is None else going(latest, "VALIDATED", status="COMPLETED")
    kept = wanted(VERSIONS, completed)[SINK].snapshot.handles
    assert [handle.path for handle in kept] == [counts, "any"]
    gone = {handle.path for subtask, handle in find_unwanted(VERSIONS, completed)}
    assert gone == {"all", "after 3", "after 5"} - {counts}


def test_without_versions_everything_counts():
    plain = {SINK: SubtaskRecord(SINK, 1, T0, Snapshot((staged("any"),)))}
    assert not has_versions(plain)
    assert has_versions(VERSIONS)
    assert wanted(plain, going(5, "VALIDATED", status="COMPLETED")) is plain
