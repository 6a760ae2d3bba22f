"""From which snapshots a checkpoint goes on: carried handles, compactions, changed parallelism (protocol.md section 14)."""

import pytest
from records import completed, run_handle

from tidegate.protocol.errors import StateSchemaError
from tidegate.protocol.keygroups import KeyGroupRange, key_groups_of
from tidegate.protocol.records import CompactedRun, HandleKind, OperatorPlan, Snapshot, SubtaskId
from tidegate.protocol.restore import apply_compactions, choose_obsolete, restore_snapshots

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


@pytest.mark.parametrize(
    "snapshot",
    [Snapshot((A,)), Snapshot((POSITION,)), Snapshot((), {"offset": 7})],
    ids=["state", "files read", "offset"],
)
def test_an_operator_that_is_gone_is_an_error_if_it_has_state_or_a_position(snapshot):
    renamed = (OperatorPlan("renamed", 2, 128),)
    with pytest.raises(StateSchemaError, match=r"state or positions of op, .* Give it its old name back"):
        restore_snapshots(completed(), {OP0: Snapshot(), OP1: snapshot}, renamed, [], False)
    assert restore_snapshots(completed(), {OP0: Snapshot(), OP1: snapshot}, renamed, [], True) == {}


@pytest.mark.parametrize("snapshot", [Snapshot(), Snapshot((STAGED,))], ids=["nothing", "staged rows"])
def test_an_operator_that_is_gone_and_held_nothing_of_its_own_is_not_missed(snapshot):
    assert restore_snapshots(completed(), {OP0: snapshot}, (OperatorPlan("new", 1, 128),), [], False) == {}


def test_rows_in_exchange_are_not_carried_over():
    exchange = run_handle("x", 1, kind=HandleKind.EXCHANGE)
    restored = restore_snapshots(completed(), {OP0: Snapshot((A, exchange))}, completed().operators, [], False)
    assert restored[OP0] == Snapshot((A,))


def test_a_changed_max_parallelism_is_refused_with_what_to_do():
    with pytest.raises(StateSchemaError, match="set max_parallelism=128"):
        restore_snapshots(completed(), {OP0: Snapshot((A,))}, (OperatorPlan("op", 2, 256),), [], False)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5, 128])
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


def test_a_compacted_run_counts_as_old_as_the_newest_run_in_it_when_parallelism_changes():
    compacted = run_handle("compacted", 9, key_groups=KeyGroupRange(0, 127), details={"newest": 5})
    later = run_handle("later", 7, key_groups=KeyGroupRange(0, 127))
    snapshots = {OP0: Snapshot((compacted, later)), OP1: Snapshot()}
    restored = restore_snapshots(completed(), snapshots, (OperatorPlan("op", 1, 128),), [], False)
    assert [handle.path for handle in restored[OP0].handles] == ["compacted", "later"]


def test_staged_files_are_not_shared_out_when_parallelism_changes():
    staged = run_handle("s", 1, kind=HandleKind.STAGED)
    restored = restore_snapshots(completed(), {OP0: Snapshot((staged,))}, (OperatorPlan("op", 3, 128),), [], False)
    assert all(not snapshot.handles for snapshot in restored.values())


@pytest.mark.parametrize(
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
