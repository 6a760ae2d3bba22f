"""A report that names a file of somebody else is refused, whatever it would have led to,
and takes nothing from anybody."""

from collections.abc import Callable

import pytest
from desks import Desk
from user_actions import suspend
from worlds import CapturingRegion

from tidegate.protocol.facts.errors import ForeignPathError
from tidegate.protocol.facts.lifecycle import Phase
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, StateHandle, SubtaskId

THEIRS = "other/chk-1/op/0-1-a.parquet"


def naming(path: str, subtask: str = "op", kind: HandleKind = HandleKind.RUN, attempt: int = 1) -> Acknowledgement:
    handle = StateHandle(path, kind, 1, 1, "0" * 64, 1)
    return Acknowledgement(SubtaskId(subtask, 0), attempt, Snapshot((handle,)))


def asked(world: Desk) -> None:
    world.ask("a")
    with pytest.raises(Exception, match="only 0 of 6 subtasks"):
        world.coordinator.snapshot(1, CapturingRegion())
    world.storage.write(THEIRS, b"rows of another pipeline")


@pytest.mark.parametrize("fate", ["counts", "is of an older attempt", "comes too late", "comes after the deadline"])
def test_a_file_of_another_pipeline_is_neither_recorded_nor_deleted(desk: Callable[..., Desk], fate: str) -> None:
    world = desk(timeout="10 min")
    asked(world)
    match fate:
        case "is of an older attempt":
            with pytest.raises(Exception, match="only 0 of 6 subtasks"):
                world.coordinator.snapshot(1, CapturingRegion())
        case "comes too late":
            suspend(world.coordinator)
        case "comes after the deadline":
            world.clock.advance(601)
    good = naming("p/chk-1/op/0-1-a.parquet")
    with pytest.raises(ForeignPathError, match=r"reported 'other/chk-1/op/0-1-a\.parquet'"):
        world.coordinator.record_acknowledgements(1, [good, naming(THEIRS)])
    with world.store.transaction("p") as tx:
        assert tx.pending_deletions(10) == []
    world.clock.advance(7200)
    world.coordinator.clean()
    assert THEIRS in world.storage.files
    record = world.store.checkpoint("p", 1)
    assert record is not None
    assert (record.phase, record.num_acknowledged) == (Phase.TRIGGERED, 0)


def test_a_sink_loses_nothing_to_a_report_that_names_its_rows(desk: Callable[..., Desk]) -> None:
    world = desk()
    asked(world)
    world.sink.staged["_staging/chk-7/0-1-rows"] = 7
    with pytest.raises(ForeignPathError):
        world.coordinator.record_acknowledgements(
            1, [naming("_staging/chk-7/0-1-rows", "out-sink", HandleKind.STAGED, attempt=9)]
        )
    world.coordinator.clean()
    assert "_staging/chk-7/0-1-rows" in world.sink.staged
