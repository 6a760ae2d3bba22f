"""Subtasks that have finished, and a pipeline that has (protocol.md section 13), on every store.

The pipeline is one source `src` of two splits, the operator `op` and its sink `out-sink`, which appends.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from desks import Desk
from records import at
from store_steps import FIRST, PIPELINE, SECOND, acknowledgement, handle, triggered
from user_actions import resume, suspend
from worlds import CapturingRegion, Crash, Judge, MemorySink, SplitSource

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointError, PipelineStatusError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointRecord,
    HandleKind,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
)
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.protocol.steps.trigger import AlreadyCompleted, Dropped, Triggered

ALL = "src op out-sink"


def found(world: Desk, checkpoint_id: int) -> CheckpointRecord:
    record = world.store.checkpoint("p", checkpoint_id)
    assert record is not None
    return record


def status_of(world: Desk) -> PipelineStatus:
    known = world.store.pipeline("p")
    assert known is not None
    return known.status


# -- what a store keeps


def test_what_has_finished_is_kept_and_counted(store: CheckpointStore) -> None:
    id_ = triggered(store)
    done = acknowledgement(FIRST, 1, handle("a", 1))
    done = replace(done, snapshot=replace(done.snapshot, finished=True))
    with store.transaction(PIPELINE) as tx:
        tx.record_acknowledgements(id_, [done, acknowledgement(SECOND, 1)], at(1))
        tx.record_acknowledgements(id_, [done], at(2))
    known = store.subtasks(PIPELINE, id_)
    assert known[FIRST].snapshot == done.snapshot
    assert not known[SECOND].snapshot.finished
    record = store.checkpoint(PIPELINE, id_)
    assert record is not None
    assert (record.num_acknowledged, record.num_finished) == (2, 1)


def test_only_what_has_finished_may_count_without_having_been_asked(store: CheckpointStore) -> None:
    world = Desk(store)
    world.ask("r")
    unasked = Acknowledgement(SubtaskId("op", 0), 0, Snapshot(), SubtaskMetrics())
    with pytest.raises(CheckpointError), store.transaction("p") as tx:
        tx.record_acknowledgements(1, [unasked], at(1))
    with store.transaction("p") as tx:
        tx.record_acknowledgements(1, [replace(unasked, snapshot=Snapshot(finished=True))], at(1))
    assert found(world, 1).num_finished == 1


# -- checkpoints after a part has finished


def test_what_finished_counts_from_the_start_and_is_asked_no_more(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("r1")
    world.complete(1, "src/0")
    assert world.ask("r2") == Triggered(2)
    assert (found(world, 2).num_acknowledged, found(world, 2).num_finished, found(world, 2).num_subtasks) == (1, 1, 6)
    region = CapturingRegion()
    with pytest.raises(CheckpointError, match="only 1 of 6"):
        world.coordinator.snapshot(2, region)
    assert region.task is not None
    assert SubtaskId("src", 0) not in region.task.attempts
    assert region.task.acknowledged == {SubtaskId("src", 0): Snapshot(finished=True)}
    assert region.task.restored[SubtaskId("src", 0)].finished
    world.complete(2)
    assert found(world, 2).status is Status.COMPLETED
    assert world.store.subtasks("p", 2)[SubtaskId("src", 0)].metrics.start_delay == 0


def test_with_the_switch_off_no_checkpoint_follows_once_a_split_has_finished(desk: Callable[..., Desk]) -> None:
    world = desk(checkpoints_after_tasks_finish=False)
    world.ask("r1")
    world.complete(1, "src/0")
    for periodic in (True, False):
        dropped = world.ask("r2", periodic=periodic)
        assert isinstance(dropped, Dropped)
        assert dropped.reason is FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        assert "1 of 6 subtasks of pipeline p had finished with checkpoint 1" in dropped.message
    assert world.store.checkpoint("p", 2) is None
    assert status_of(world) is PipelineStatus.RUNNING


def stage(world: Desk, finished: bool, but: str) -> Callable[[SnapshotTask], None]:
    """A report in which the sink `out` stages a file, and the operator a run beside those it had."""

    def report(task: SnapshotTask) -> None:
        id_, acks = task.checkpoint_id, []
        for subtask, attempt in task.attempts.items():
            handles = task.restored.get(subtask, Snapshot()).handles if subtask.operator_id == "op" else ()
            if subtask.operator_id in ("op", "out-sink"):
                kind = HandleKind.RUN if subtask.operator_id == "op" else HandleKind.STAGED
                below = "p" if kind is HandleKind.RUN else "_staging"
                path = f"{below}/chk-{id_}/{subtask}-{attempt}-file"
                handles = (*handles, StateHandle(path, kind, 1, 100, "0" * 64, id_))
                (world.storage.files if kind is HandleKind.RUN else world.sink.staged)[path] = id_
            ends = finished and not (but and subtask.operator_id.startswith(but))
            acks.append(Acknowledgement(subtask, attempt, Snapshot(handles, finished=ends)))
        world.coordinator.record_acknowledgements(id_, acks)

    return report


def take(world: Desk, checkpoint_id: int, finished: bool = False, but: str = "") -> None:
    world.coordinator.snapshot(checkpoint_id, CapturingRegion(stage(world, finished, but)))
    world.coordinator.validate(checkpoint_id, Judge(True))
    world.coordinator.finalize(checkpoint_id)


def test_the_last_checkpoint_keeps_the_state_and_makes_the_pipeline_finished_once_its_sinks_were_notified(
    desk: Callable[..., Desk],
) -> None:
    world = desk()
    world.ask("r1")
    take(world, 1)
    world.coordinator.notify(1)
    world.ask("r2")
    take(world, 2, finished=True)
    assert status_of(world) is PipelineStatus.RUNNING, "its sinks were not notified yet"
    world.coordinator.notify(2)
    assert status_of(world) is PipelineStatus.FINISHED
    assert world.sink.visible[2] == ("_staging/chk-2/out-sink/0-1-file", "_staging/chk-2/out-sink/1-1-file")
    last = world.store.subtasks("p", 2)[SubtaskId("op", 1)].snapshot
    assert [run.path for run in last.handles] == ["p/chk-1/op/1-1-file", "p/chk-2/op/1-1-file"]
    assert {run.path for run in last.handles} <= world.storage.files.keys()
    assert world.coordinator.notify(2) == world.coordinator.notify(2)


@pytest.mark.parametrize("periodic", [True, False])
def test_a_finished_pipeline_drops_requests_and_says_why(desk: Callable[..., Desk], periodic: bool) -> None:
    world = desk()
    world.ask("r1")
    world.complete(1, ALL)
    dropped = world.ask("r2", periodic=periodic)
    assert isinstance(dropped, Dropped)
    assert "Pipeline p is FINISHED (since" in dropped.message
    assert "Checkpoint 1 has read every source to its end." in dropped.message
    assert isinstance(world.stop("r3"), Dropped)
    assert world.ask("r1") == AlreadyCompleted(1)
    with pytest.raises(PipelineStatusError, match="FINISHED and cannot be resumed"):
        resume(world.coordinator)
    with pytest.raises(PipelineStatusError, match="cannot become SUSPENDED"):
        suspend(world.coordinator)
    assert world.coordinator.cancel().status is PipelineStatus.CANCELLED


def test_a_notification_that_a_crash_cut_short_is_made_up_for_and_ends_the_pipeline(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("r1")
    take(world, 1, finished=True)

    def crash(checkpoint_id: int) -> None:
        raise Crash

    world.sink.before_commit = crash
    with pytest.raises(Crash):
        world.coordinator.notify(1)
    assert status_of(world) is PipelineStatus.RUNNING
    world.sink.before_commit = lambda checkpoint_id: None
    assert isinstance(world.ask("r2"), Dropped)
    assert status_of(world) is PipelineStatus.FINISHED
    assert 1 in world.sink.visible


def test_a_pipeline_whose_last_checkpoint_was_notified_while_it_could_not_finish_finishes_when_asked_next(
    store: CheckpointStore,
) -> None:
    world = Desk(store)
    world.ask("r1")
    world.complete(1, ALL)
    with store.transaction("p") as tx:  # as after a failure that was only then resumed
        tx.move_pipeline(PipelineStatus.RUNNING, at(1))
    assert isinstance(world.ask("r2"), Dropped)
    assert status_of(world) is PipelineStatus.FINISHED


def test_a_pipeline_that_was_restored_to_its_end_has_finished_when_a_region_begins(store: CheckpointStore) -> None:
    """A region has nothing to read there, and would wait for ever."""
    world = Desk(store)
    world.ask("r1")
    world.complete(1, ALL)
    world.coordinator.restore(ToCheckpoint(None))
    assert status_of(world) is PipelineStatus.RUNNING
    with pytest.raises(PipelineStatusError, match="is FINISHED"):
        world.coordinator.start_region()
    assert status_of(world) is PipelineStatus.FINISHED


def test_a_sink_that_had_finished_is_not_notified_again_and_its_rows_are_not_committed_twice(
    desk: Callable[..., Desk],
) -> None:
    """A second branch, of a source that goes on, beside the one that has finished."""
    world, live = desk(), MemorySink()
    world.pipeline.source("live", SplitSource(1)).sink("live", live)
    world.coordinator = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock)
    world.ask("r1")
    take(world, 1, finished=True, but="live")
    world.coordinator.notify(1)
    assert status_of(world) is PipelineStatus.RUNNING
    notified: list[str] = []
    world.sink.before_commit = lambda checkpoint_id: notified.append(f"out {checkpoint_id}")
    live.before_commit = lambda checkpoint_id: notified.append(f"live {checkpoint_id}")
    world.ask("r2")
    world.complete(2)
    assert notified == ["live 2"]
    carried = world.store.subtasks("p", 2)
    assert carried[SubtaskId("out-sink", 0)].snapshot == Snapshot(finished=True)
    assert [run.path for run in carried[SubtaskId("op", 0)].snapshot.handles] == ["p/chk-1/op/0-1-file"]
    assert found(world, 2).checkpointed_size == 0
    assert world.sink.visible.keys() == {1}


def test_a_rescaled_pipeline_keeps_what_had_finished(desk: Callable[..., Desk]) -> None:
    world = desk()
    world.ask("r1")
    world.complete(1, "src/0 src/1 op")
    world.pipeline.parallelism = 3
    wider = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock)
    assert wider.trigger("r2") == Triggered(2)
    assert (found(world, 2).num_finished, found(world, 2).num_subtasks) == (2 + 3, 2 + 3 + 3)
