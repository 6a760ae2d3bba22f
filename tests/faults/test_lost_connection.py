"""The connection is lost at the commit point: the outcome is unknown, so it is looked up, and nothing is deleted."""

import pytest
from worlds import (
    DEATHS,
    CapturingRegion,
    Crash,
    Judge,
    ManualClock,
    MemorySink,
    MemoryStorage,
    MortalStore,
    small_pipeline,
)

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.errors import FinalizeError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, StateHandle


@pytest.fixture
def world(store):
    sink, storage, mortal = MemorySink(), MemoryStorage(), MortalStore(store)
    coordinator = CheckpointCoordinator(small_pipeline(sink), mortal, storage, ManualClock())
    checkpoint_id = coordinator.trigger("r").checkpoint_id
    region = CapturingRegion()
    with pytest.raises(Exception, match="0 of 6 subtasks"):
        coordinator.snapshot(checkpoint_id, region)
    acks = []
    for subtask, attempt in region.task.attempts.items():
        path = f"_staging/chk-1/{subtask}-{attempt}-rows"
        staged = subtask.operator_id == "out-sink"
        handles = (StateHandle(path, HandleKind.STAGED, 3, 1, "0" * 64, 1),) if staged else ()
        sink.staged |= {path: 1} if staged else {}
        acks.append(Acknowledgement(subtask, attempt, Snapshot(handles)))
    coordinator.record_acknowledgements(checkpoint_id, acks)
    coordinator.validate(checkpoint_id, Judge(True))
    return coordinator, mortal, sink, storage


COMMIT = 1  # transactions of finalize before it: read the permit, and what goes into the metadata


@pytest.mark.parametrize("how", DEATHS)
def test_whatever_happens_at_the_commit_repeating_finalize_completes_it_once(world, how):
    coordinator, mortal, sink, storage = world
    mortal.plan = (COMMIT, how)
    if how == "connection lost after commit":
        assert coordinator.finalize(1).status is Status.COMPLETED  # it looked, and found that it had landed
    elif how == "connection lost before commit":
        with pytest.raises(FinalizeError, match=r"did not take effect .* Repeat the finalize step"):
            coordinator.finalize(1)
    else:
        with pytest.raises(Crash):
            coordinator.finalize(1)
    assert mortal.plan is None, "the death was not met"
    assert len(sink.staged) == 2
    assert storage.files
    assert coordinator.finalize(1).status is Status.COMPLETED
    assert [delivered.rows for delivered in coordinator.notify(1)] == [6]
    assert [delivered.rows for delivered in coordinator.notify(1)] == [6]
    assert not sink.staged
