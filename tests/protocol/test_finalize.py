"""Which files a checkpoint is held against before it completes."""

from collections.abc import Sequence

from cases import for_each
from records import completed, record

from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointRecord, HandleKind, Snapshot, StateHandle
from tidegate.protocol.steps.finalize import (
    SAMPLE_BYTES,
    SAMPLE_PART,
    Landed,
    NotLanded,
    choose_sample,
    decide_landing,
    referred_files,
)


def runs(number: int, size: int, created_by: int = 1) -> list[StateHandle]:
    return [StateHandle(f"p/chk-1/op/{i}", HandleKind.RUN, 1, size, "c", created_by) for i in range(number)]


def bytes_of(files: Sequence[StateHandle], chosen: set[str]) -> int:
    return sum(handle.bytes for handle in files if handle.path in chosen)


def test_what_is_looked_at_is_all_that_a_restore_needs_each_file_once() -> None:
    handles = {kind: StateHandle(f"p/{kind}", kind, 1, 1, "c", 1) for kind in HandleKind}
    snapshots = [Snapshot(tuple(handles.values())), Snapshot((handles[HandleKind.RUN],))]
    assert {handle.kind for handle in referred_files(snapshots)} == {
        HandleKind.RUN,
        HandleKind.POSITION,
        HandleKind.CHANNEL,
    }
    assert len(referred_files(snapshots)) == 3


def test_few_bytes_are_read_by_every_checkpoint_and_its_own_files_by_none() -> None:
    files = runs(8, SAMPLE_BYTES // 8)
    assert choose_sample(7, files) == {handle.path for handle in files}
    assert choose_sample(1, files) == set()
    assert choose_sample(7, []) == set()


def test_of_many_bytes_every_file_has_its_turn_and_no_checkpoint_reads_much() -> None:
    files = runs(400, SAMPLE_BYTES // 20)  # 20 turns
    chosen = [choose_sample(checkpoint_id, files) for checkpoint_id in range(100, 120)]
    assert set().union(*chosen) == {handle.path for handle in files}
    assert sum(map(len, chosen)) == len(files)
    assert max(bytes_of(files, each) for each in chosen) < 2 * SAMPLE_BYTES


def test_of_very_many_bytes_a_part_is_read_so_that_turns_come_round() -> None:
    files = runs(1000, SAMPLE_BYTES)
    chosen = [choose_sample(checkpoint_id, files) for checkpoint_id in range(100, 100 + SAMPLE_PART)]
    assert set().union(*chosen) == {handle.path for handle in files}


@for_each("status", [Status.COMPLETED, Status.SUBSUMED, Status.DISCARDED])
def test_a_commit_has_landed_if_the_checkpoint_is_complete_whatever_came_after(status: Status) -> None:
    known = completed(status=status)
    assert decide_landing(known) == Landed(known)


@for_each(
    ("known", "now"),
    [(None, "it does not exist"), (record(), "IN_PROGRESS"), (record(status=Status.FAILED), "FAILED")],
)
def test_a_commit_that_did_not_land_says_how_the_checkpoint_is(known: CheckpointRecord | None, now: str) -> None:
    assert decide_landing(known) == NotLanded(now)
