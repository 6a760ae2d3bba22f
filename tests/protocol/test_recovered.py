"""Which checkpoints are recorded again from what storage holds, what is in doubt, and which numbers are taken."""

import json
from dataclasses import replace

import pytest
from cases import for_each
from records import at, completed, run_handle

from tidegate.protocol.facts.branches import Restore, find_unfinished
from tidegate.protocol.facts.errors import MetadataError, PipelineIdentityError, RecoveryRefusedError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import Snapshot, SubtaskId, SubtaskRecord
from tidegate.protocol.recovery.identity import Endpoint, Moved, Role
from tidegate.protocol.recovery.lost_database import (
    AcceptedLosses,
    Candidate,
    Numbers,
    RecoveryPlan,
    choose_recovered,
    find_numbers,
    latest_of,
    require_any,
    require_as_marked,
    require_losses_accepted,
    require_own_handles,
    require_unknown,
    withdrawing,
)
from tidegate.protocol.recovery.marker import Marker, marker_of
from tidegate.protocol.recovery.metadata import Metadata


def metadata(checkpoint_id, *handles, **changes):
    record = replace(completed(checkpoint_id), status=Status.IN_PROGRESS, completed_at=None, metadata_path=None)
    op = SubtaskId("op", 0)
    return Metadata(record, {op: SubtaskRecord(op, 1, at(1), Snapshot(handles))}, **changes)


def found(checkpoint_id, marked=True, problem=None, known=(), **changes):
    marker = Marker("p", checkpoint_id, "0", at(3), known, checkpoint_id) if marked else None
    return Candidate(checkpoint_id, marked, metadata(checkpoint_id, **changes), marker, problem)


def chosen(candidates, *include):
    recovered, _, unrecovered = choose_recovered(candidates, include)
    return [each.record.checkpoint_id for each in recovered], {each.checkpoint_id: each for each in unrecovered}


def test_what_is_whole_and_marked_is_recovered_oldest_first():
    recovered, restores, unrecovered = choose_recovered([found(4), found(2)], ())
    assert [each.record.checkpoint_id for each in recovered] == [2, 4]
    assert [each.notified for each in recovered] == [True, False]
    assert (restores, unrecovered) == ([], [])


def test_the_newest_without_a_marker_is_in_doubt_and_counts_only_if_somebody_says_so():
    candidates = [found(2), found(3, marked=False)]
    ids, left = chosen(candidates)
    assert (ids, left[3].in_doubt, left[3].had_completed) == ([2], True, False)
    assert chosen(candidates, 3) == ([2, 3], {})
    recovered, _, _ = choose_recovered(candidates, [3])
    assert [(each.marker is None, each.notified) for each in recovered] == [(False, True), (True, False)]


def test_one_without_a_marker_that_a_later_one_has_is_not_in_doubt_it_had_not_completed():
    ids, left = chosen([found(2, marked=False), found(3)])
    assert (ids, left[2].in_doubt) == ([3], False)
    with pytest.raises(RecoveryRefusedError, match=r"Checkpoint 2 is not in doubt .*a later checkpoint has"):
        chosen([found(2, marked=False), found(3)], 2)
    with pytest.raises(RecoveryRefusedError, match=r"Checkpoint 9 is not in doubt .*Nothing of it is on"):
        chosen([found(3)], 9)


def test_what_is_damaged_is_listed_with_its_reason_and_cannot_be_included():
    ids, left = chosen([found(2), found(3, problem="it is damaged"), Candidate(4, False, None, None, "no _metadata")])
    assert ids == [2]
    assert [(each.reason, each.in_doubt, each.had_completed) for each in left.values()] == [
        ("it is damaged", False, True),
        ("no _metadata", False, False),
    ]
    with pytest.raises(RecoveryRefusedError, match="it is damaged"):
        chosen([found(2), found(3, problem="it is damaged")], 3)


BACK = Restore(1, 2, 4, 4, at(9))


def test_the_sinks_of_one_that_nothing_follows_are_to_be_committed_again():
    """Checkpoints 3 and 4 were left behind by a restore to 2."""
    candidates = [*(found(id_) for id_ in (1, 2, 3, 4)), found(5, restores=[BACK])]
    recovered, restores, _ = choose_recovered(candidates, ())
    assert [each.notified for each in recovered] == [True, True, True, False, False]
    assert latest_of(recovered, restores).record.checkpoint_id == 5


def test_a_name_is_that_of_the_savepoint_it_was_given_last():
    candidates = []
    for checkpoint_id, name in ((1, "weekly"), (2, "monthly"), (3, "weekly")):
        one = found(checkpoint_id)
        candidates.append(replace(one, metadata=replace(one.metadata, record=one.metadata.record.moved(name=name))))
    recovered, _, _ = choose_recovered(candidates, ())
    assert [each.record.name for each in recovered] == [None, "monthly", "weekly"]


def test_a_restore_that_no_checkpoint_has_followed_is_known_by_the_marker_of_the_restored_one():
    recovered, restores, _ = choose_recovered([found(1), found(2, known=[BACK]), found(3), found(4)], ())
    assert latest_of(recovered, restores).record.checkpoint_id == 2
    assert find_unfinished(restores) == BACK
    again = Restore(2, 3, 6, 2, at(20))
    later = [found(2, known=[BACK]), found(3, known=[BACK, again]), found(5, restores=[BACK])]
    recovered, restores, _ = choose_recovered(later, ())
    assert restores == [replace(BACK, rewound_at=at(9)), again]
    assert latest_of(recovered, restores).record.checkpoint_id == 3


def test_tables_that_a_restore_has_not_rewound_yet_have_lost_nothing():
    behind = plan([found(2, known=[BACK]), found(3, problem="it is cut off"), found(4)], shown=(3, 4))
    assert (behind.latest.record.checkpoint_id, behind.lost) == (2, [3])
    assert plan([found(2, known=[BACK]), found(3), found(4)], shown=(3, 4)).lost == []


def test_numbers_are_those_of_everything_that_carries_one():
    paths = ["p/chk-3/_metadata", "p/chk-12/op/.x.tmp", "p/shared/4/op/0-4-a", "p/other/9", "q/chk-99/_metadata"]
    assert find_numbers("p", paths) == Numbers(12, 4, 0)
    assert Numbers(12, 4, 0).and_(Numbers(2, 5, 6)) == Numbers(12, 5, 6)


def test_metadata_that_are_not_those_that_were_committed_are_refused():
    content = json.dumps({"any": "thing"}).encode()
    marker = marker_of(completed(4), content, [], 1)
    require_as_marked(marker, content)
    with pytest.raises(MetadataError, match=r"p/chk-4/_metadata differs from the committed one: its SHA-256"):
        require_as_marked(marker, content + b" ")


@for_each("path", ["q/chk-1/op/0-1-a", "p/chk-1/../../q/chk-1/op/a", "/etc/passwd", "p/other", ""])
def test_a_checkpoint_that_names_files_of_others_is_refused(path):
    require_own_handles(metadata(4, run_handle("p/chk-1/op/0-1-a", 1), run_handle("p/shared/2/op/0-2-a", 4)))
    with pytest.raises(MetadataError, match="is no file of op/0"):
        require_own_handles(metadata(4, run_handle(path, 1)))
    with pytest.raises(MetadataError, match="is no file of op/0"):
        require_own_handles(metadata(4, run_handle("p/chk-1/op/0-1-a", 5)))


def test_only_a_database_that_knows_no_checkpoint_is_recovered_into():
    require_unknown("p", 0)
    with pytest.raises(RecoveryRefusedError, match=r"up to 3: nothing was recovered .*tidegate checkpoints p"):
        require_unknown("p", 3)


def test_where_nothing_can_be_recovered_the_error_says_why():
    with pytest.raises(RecoveryRefusedError, match=r"no checkpoint on file:///x .*check TIDEGATE_STORAGE"):
        require_any("p", "file:///x", [], [], [])
    _, _, unrecovered = choose_recovered([found(1, problem="it is cut off"), found(2, marked=False)], ())
    with pytest.raises(RecoveryRefusedError, match=r"Checkpoint 1: it is cut off .*add --include-doubtful 2"):
        require_any("p", "file:///x", [], [], unrecovered)


def plan(candidates, shown=(), moved=()):
    recovered, restores, unrecovered = choose_recovered(candidates, ())
    return RecoveryPlan("p", tuple(recovered), tuple(restores), tuple(unrecovered), shown, moved, Numbers(9, 0, 0))


def test_later_checkpoints_that_had_completed_must_be_given_up_explicitly():
    """The tables show their rows, and the pipeline would read what they had read once more."""
    whole = plan([found(2), found(3, marked=False)])
    require_losses_accepted(whole, AcceptedLosses())
    assert withdrawing(whole, whole.numbers, at(5)) is None
    damaged = plan([found(1, problem="old"), found(2), found(3, problem="it is cut off")], shown=(4,))
    assert damaged.lost == [3, 4]
    with pytest.raises(RecoveryRefusedError, match=r"Checkpoint 3: it is cut off Checkpoint 4: nothing .*--withdraw"):
        require_losses_accepted(damaged, AcceptedLosses())
    require_losses_accepted(damaged, AcceptedLosses(withdraw=True))
    assert withdrawing(damaged, damaged.numbers, at(5)) == Restore(1, 2, 9, None, at(5))


def test_what_has_moved_must_be_confirmed():
    here, there = (Endpoint(Role.SINK, "out", "ParquetSink", place) for place in ("here", "there"))
    elsewhere = plan([found(2)], moved=(Moved(here, there),))
    with pytest.raises(PipelineIdentityError, match=r"sink 'out' is ParquetSink at here, and here it is .*--relocate"):
        require_losses_accepted(elsewhere, AcceptedLosses(withdraw=True))
    require_losses_accepted(elsewhere, AcceptedLosses(moved=True))
