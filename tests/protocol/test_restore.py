"""From which snapshots a checkpoint goes on: carried handles, compactions,
changed parallelism (protocol.md section 14)."""

from collections.abc import Mapping

import pytest
from cases import for_each
from records import completed, run_handle

from tidegate.protocol.facts.errors import StateSchemaError
from tidegate.protocol.facts.keygroups import KeyGroupRange, key_groups_of
from tidegate.protocol.facts.records import CompactedRun, HandleKind, OperatorPlan, Snapshot, SubtaskId
from tidegate.protocol.steps.restored_snapshots import (
    apply_compactions,
    choose_newer,
    choose_obsolete,
    restore_snapshots,
)

OP0, OP1 = SubtaskId("op", 0), SubtaskId("op", 1)
A, B, C, D = (run_handle(name, index) for index, name in enumerate("abcd", start=1))
MERGED = run_handle("m", 4)


def test_the_first_checkpoint_starts_from_nothing():
    assert restore_snapshots(None, {}, (OperatorPlan("op", 2, 128),), [], False) == {}


def test_an_operator_that_the_latest_checkpoint_does_not_know_starts_empty():
    operators = (*completed().operators, OperatorPlan("new", 1, 128))
    assert restore_snapshots(completed(), {OP0: Snapshot((A,))}, operators, [], False) == {OP0: Snapshot((A,))}


STAGED = run_handle("s", 1, kind=HandleKind.STAGED)
POSITION = run_handle("p", 1, kind=HandleKind.POSITION)


@for_each(
    "snapshot",
    [Snapshot((A,)), Snapshot((POSITION,)), Snapshot((), {"offset": 7})],
    ids=["state", "files read", "offset"],
)
def test_an_operator_that_is_gone_is_an_error_if_it_has_state_or_a_position(snapshot):
    renamed = (OperatorPlan("renamed", 2, 128),)
    with pytest.raises(StateSchemaError, match=r"state or positions of op, .* Restore the old name"):
        restore_snapshots(completed(), {OP0: Snapshot(), OP1: snapshot}, renamed, [], False)
    assert restore_snapshots(completed(), {OP0: Snapshot(), OP1: snapshot}, renamed, [], True) == {}


@for_each("snapshot", [Snapshot(), Snapshot((STAGED,))], ids=["nothing", "staged rows"])
def test_an_operator_that_is_gone_and_held_nothing_of_its_own_is_not_missed(snapshot):
    assert restore_snapshots(completed(), {OP0: snapshot}, (OperatorPlan("new", 1, 128),), [], False) == {}


def test_rows_in_exchange_are_not_carried_over():
    exchange = run_handle("x", 1, kind=HandleKind.EXCHANGE)
    restored = restore_snapshots(completed(), {OP0: Snapshot((A, exchange))}, completed().operators, [], False)
    assert restored[OP0] == Snapshot((A,))


def test_a_changed_max_parallelism_is_refused_with_what_to_do():
    with pytest.raises(
        StateSchemaError, match=r"set max_parallelism=128\. To rewrite it, run `tidegate rewrite p --to"
    ):
        restore_snapshots(completed(), {OP0: Snapshot((A,))}, (OperatorPlan("op", 2, 256),), [], False)


def test_more_subtasks_than_the_state_has_key_groups_are_named_too():
    with pytest.raises(StateSchemaError, match="set max_parallelism=128 and parallelism to at most 128"):
        restore_snapshots(completed(), {OP0: Snapshot((A,))}, (OperatorPlan("op", 200, 512),), [], False)


@for_each("parallelism", [1, 2, 3, 5, 128])
def test_after_a_rescale_every_subtask_opens_exactly_the_runs_that_overlap_its_key_groups(parallelism):
    low = run_handle("low", 1, key_groups=KeyGroupRange(0, 63))
    high = run_handle("high", 1, key_groups=KeyGroupRange(64, 127))
    newer = run_handle("newer", 2, key_groups=KeyGroupRange(0, 63))
    snapshots = {OP0: Snapshot((low, newer)), OP1: Snapshot((high,))}
    restored = restore_snapshots(completed(), snapshots, (OperatorPlan("op", parallelism, 128),), [], False)
    for index in range(parallelism):
        groups = key_groups_of(index, parallelism, 128)
        paths = [handle.path for handle in restored[SubtaskId("op", index)].handles]
        expected = (["low"] if groups.first <= 63 else []) + (["high"] if groups.last >= 64 else [])
        assert set(paths) - {"newer"} == set(expected)
        assert ("newer" in paths) == ("low" in paths)
        if "newer" in paths:
            assert paths.index("newer") > paths.index("low")


def rescaled(parallelism, *lists):
    """What subtasks see after two became `parallelism`, as views."""
    snapshots = {SubtaskId("op", index): Snapshot(tuple(runs)) for index, runs in enumerate(lists)}
    restored = restore_snapshots(completed(), snapshots, (OperatorPlan("op", parallelism, 128),), [], False)
    return [[h.view for h in restored[SubtaskId("op", index)].handles] for index in range(parallelism)]


def run_in(path, first, last):
    return run_handle(path, 1, key_groups=KeyGroupRange(first, last))


def test_a_run_is_seen_only_where_the_subtask_that_listed_it_owned_the_key_groups():
    shared, newer = run_in("shared", 0, 127), run_in("newer", 0, 63)
    assert rescaled(1, [newer], [shared]) == [["newer[0-63]", "shared[64-127]"]]
    assert rescaled(4, [newer], [shared]) == [
        ["newer[0-31]"], ["newer[32-63]"], ["shared[64-95]"], ["shared[96-127]"],
    ]  # fmt: skip


def test_a_file_that_several_subtasks_share_is_put_back_together():
    shared, left, right = run_in("shared", 0, 127), run_in("left", 0, 63), run_in("right", 64, 127)
    assert rescaled(1, [shared, left], [shared, right]) == [["shared[0-127]", "left[0-63]", "right[64-127]"]]


def test_the_order_of_each_subtasks_runs_is_kept_whatever_their_age_and_name():
    """A merged run that stands before another of the same age: what it holds of the other's keys is older."""
    merged, sibling, other = run_in("z", 0, 63), run_in("a", 16, 31), run_in("m", 64, 127)
    assert rescaled(1, [merged, sibling], [other]) == [["z[0-63]", "m[64-127]", "a[16-31]"]]


def test_a_compaction_for_a_rescaled_subtask_does_not_touch_the_old_one_of_its_index():
    whole = [run_in(name, 64, 127) for name in "ab"]
    part = CompactedRun(OP1, run_in("m", 26, 50), ("a[26-50]", "b[26-50]"))
    assert apply_compactions({OP1: Snapshot(tuple(whole))}, [part]) == {OP1: Snapshot(tuple(whole))}


def test_staged_files_are_not_shared_out_when_parallelism_changes():
    staged = run_handle("s", 1, kind=HandleKind.STAGED)
    restored = restore_snapshots(completed(), {OP0: Snapshot((staged,))}, (OperatorPlan("op", 3, 128),), [], False)
    assert all(not snapshot.handles for snapshot in restored.values())


def test_the_position_of_a_split_that_is_gone_stays_for_those_that_are_left():
    """Else they would begin its part of a topic anew."""
    read = {OP0: Snapshot((), {"to": 5}), OP1: Snapshot((), {"to": 7})}
    assert restore_snapshots(completed(), read, (OperatorPlan("op", 1, 128),), [], False) == read
    by_files = {OP0: Snapshot((POSITION,), {"files": 1}), OP1: Snapshot((POSITION,), {"files": 1})}
    restored = restore_snapshots(completed(), by_files, (OperatorPlan("op", 1, 128),), [], False)
    assert restored == {OP0: Snapshot((POSITION,))}, "their files say what all have read"


@for_each(
    ("handles", "replaces", "expected"),
    [
        ((A, B, C), ("a", "b", "c"), (MERGED,)),
        ((A, B, C, D), ("b", "c"), (A, MERGED, D)),
        ((A, B, D), ("b", "c"), (A, B, D)),
        ((A, C, B), ("b", "c"), (A, C, B)),
        ((MERGED, D), ("a", "b"), (MERGED, D)),
    ],
    ids=["all", "in the middle", "one is gone", "not consecutive", "already applied"],
)
def test_a_compacted_run_takes_the_place_of_exactly_what_it_replaces(handles, replaces, expected):
    compaction = CompactedRun(OP0, MERGED, replaces)
    assert apply_compactions({OP0: Snapshot(handles)}, [compaction])[OP0].handles == expected
    obsolete = choose_obsolete({OP0: Snapshot(handles)}, [compaction])
    assert obsolete == ([] if MERGED in expected and MERGED not in handles else [compaction])


class OnlyLookedUp(Mapping):
    """A mapping too large to be gone through."""

    def __init__(self, items):
        self._items = items

    def __getitem__(self, key):
        return self._items[key]

    def __iter__(self):
        raise AssertionError("all snapshots are gone through for the sake of some compactions")

    def __len__(self):
        return len(self._items)


def test_finding_obsolete_compactions_looks_at_the_compacted_subtasks_only():
    compactions = [CompactedRun(OP0, MERGED, ("a", "b")), CompactedRun(OP1, MERGED, ("a", "b"))]
    snapshots = OnlyLookedUp({OP0: Snapshot((A, B)), OP1: Snapshot((C,))})
    assert choose_obsolete(snapshots, [*compactions, CompactedRun(SubtaskId("gone", 0), MERGED, ("a",))]) == [
        compactions[1],
        CompactedRun(SubtaskId("gone", 0), MERGED, ("a",)),
    ]


def test_a_merged_run_with_newer_columns_than_the_state_is_left_behind():
    """The code that merged it may not be the code that goes on."""
    changed = run_handle("m", 4, details={"layout_version": 2})
    compaction = CompactedRun(OP0, changed, (A.view, B.view))
    old = {OP0: Snapshot((A, B)), OP1: Snapshot((run_handle("x", 1, details={"layout_version": 1}),))}
    new = {OP0: Snapshot((A, B)), OP1: Snapshot((run_handle("x", 1, details={"layout_version": 2}),))}
    assert choose_newer(old, [compaction]) == [compaction]
    assert choose_newer(new, [compaction]) == []
    assert choose_newer(old, [CompactedRun(OP0, MERGED, (A.view, B.view))]) == []
