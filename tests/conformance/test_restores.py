"""Back to an earlier checkpoint, and forth again: on every store, whatever runs beside it and wherever it crashes."""

from dataclasses import replace
from datetime import timedelta

import pytest
from pasts import OP, Past
from user_actions import resume, suspend
from worlds import DEATHS, Crash, Judge, MortalStore, small_pipeline

from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.ports import SinkInput
from tidegate.protocol.facts.errors import (
    CheckpointAbandonedError,
    CheckpointNotFoundError,
    CheckpointNotInProgressError,
    CheckpointNotRetainedError,
    NothingToUndoError,
    RestoreRefusedError,
    StateIntegrityError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CompactedRun
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.steps.trigger import AlreadyCompleted, Triggered


@pytest.fixture
def past(store):
    """With checkpoints 1 to 4 behind it."""

    def open_(**config):
        world = Past(store, **{"retained": 9} | config)
        for number in (1, 2, 3, 4):
            assert world.take(f"r{number}") == number
        return world

    return open_


def test_state_and_tables_are_those_of_the_checkpoint_and_the_next_one_follows_it(past):
    world = past()
    plan = world.restore(2)
    assert (plan.left_behind, plan.coming_back, plan.previous.checkpoint_id) == ((3, 4), (), 4)
    assert world.ids() == ([1, 2], [3, 4])
    assert world.shown() == [1, 2]
    assert world.take("r5") == 5
    assert world.runs_restored() == [1, 2]
    assert world.shown() == [1, 2, 5]
    assert world.store.figures("p").latest_restore.checkpoint.checkpoint_id == 2
    with world.store.transaction("p") as tx:
        (restore,) = tx.restores()
        assert (restore.checkpoint_id, restore.last_checkpoint_id, restore.previous_checkpoint_id) == (2, 4, 4)
        assert restore.rewound_at is not None
        assert tx.latest_completed().checkpoint_id == 5


def test_the_plan_changes_nothing(past):
    world = past()
    plan = world.coordinator.plan_restore(ToCheckpoint(2))
    assert [(sink.sink, sink.withdrawn, sink.can_rewind) for sink in plan.sinks] == [("out", (3, 4), True)]
    assert [(each.operator_id, each.rows, each.bytes, each.matched) for each in plan.operators] == [("op", 2, 6, True)]
    assert world.ids() == ([1, 2, 3, 4], [])
    assert world.shown() == [1, 2, 3, 4]


def test_an_undo_brings_everything_back_and_can_be_done_once(past):
    world = past()
    world.restore(2)
    world.take("r5")
    plan = world.coordinator.restore(Undo())
    assert (plan.checkpoint.checkpoint_id, plan.left_behind, plan.coming_back) == (4, (5,), (3, 4))
    assert world.ids() == ([1, 2, 3, 4], [5])
    assert world.shown() == [1, 2, 3, 4]
    with pytest.raises(NothingToUndoError):
        world.coordinator.restore(Undo())
    world.take("r6")
    assert world.runs_restored() == [1, 2, 3, 4]
    world.restore(5)
    assert world.shown() == [1, 2, 5]
    world.take("r7")
    assert world.runs_restored() == [1, 2, 5]


def test_a_request_whose_checkpoint_was_left_behind_asks_anew_and_counts_again_after_an_undo(past):
    world = past()
    world.restore(2)
    assert isinstance(world.ask("r2"), AlreadyCompleted)
    assert world.ask("r3") == Triggered(5)
    world.complete(5)
    world.coordinator.restore(Undo())
    assert world.ask("r3") == AlreadyCompleted(3)
    world.restore(2)
    assert isinstance(world.ask("r3"), Triggered)
    world.coordinator.abort(6, FailureReason.TASK_FAILURE, "enough")
    world.coordinator.restore(Undo())
    assert world.ask("r3") == AlreadyCompleted(3)


def test_what_is_in_progress_is_aborted_and_its_steps_are_refused(past):
    world = past()
    world.ask("r5")
    world.restore(2)
    failed = world.store.checkpoint("p", 5)
    assert (failed.status, failed.failure_reason) == (Status.FAILED, FailureReason.COORDINATOR_SUSPEND)
    assert "The pipeline was restored to checkpoint 2." in failed.failure_message
    with pytest.raises(CheckpointNotInProgressError, match="restored to checkpoint 2"):
        world.snapshot(5)
    with pytest.raises(CheckpointAbandonedError):
        world.coordinator.notify(4)
    assert world.shown() == [1, 2]


def test_a_region_is_fenced(past):
    world = past()
    region = world.coordinator.start_region()
    world.restore(2)
    with pytest.raises(SupersededAttemptError, match="or was restored"):
        world.coordinator.keep_region(region.attempt)
    started = world.coordinator.start_region()
    assert (started.checkpoint_id, [handle.created_by for handle in started.restored[OP].handles]) == (2, [1, 2])


def test_rows_of_a_completed_checkpoint_that_were_not_shown_yet_stay_staged_and_come_back_with_an_undo(past):
    world = past()
    world.ask("r5")
    world.snapshot(5)
    world.coordinator.validate(5, Judge(True))
    world.coordinator.finalize(5)
    world.restore(4)
    assert world.shown() == [1, 2, 3, 4]
    world.coordinator.clean()
    assert list(world.sink.staged.values()) == [5]
    world.coordinator.restore(Undo())
    assert world.shown() == [1, 2, 3, 4, 5]


STANDING = {
    PipelineStatus.RUNNING: lambda world: None,
    PipelineStatus.SUSPENDED: lambda world: suspend(world.coordinator),
    PipelineStatus.FAILED: lambda world: (
        world.ask("fails"),
        world.coordinator.abort(6, FailureReason.CHECKPOINT_DECLINED, "it declined"),
    ),
    PipelineStatus.FINISHED: lambda world: (world.stop("last", drain=True), world.complete(6, "src op out-sink")),
    PipelineStatus.STOPPING: lambda world: world.stop("last"),
    PipelineStatus.CANCELLED: lambda world: world.coordinator.cancel(),
}


@pytest.mark.parametrize("status", STANDING)
def test_a_pipeline_of_any_status_runs_again_unless_it_is_suspended(past, status):
    world = past(tolerable_failed_checkpoints=0)
    world.take("kept", savepoint=True)
    STANDING[status](world)
    assert world.store.pipeline("p").status is status
    world.restore(5)
    assert world.shown() == [1, 2, 3, 4, 5]
    expected = PipelineStatus.SUSPENDED if status is PipelineStatus.SUSPENDED else PipelineStatus.RUNNING
    assert world.store.pipeline("p").status is expected
    if expected is PipelineStatus.SUSPENDED:
        resume(world.coordinator)
    assert world.take("next") in (6, 7)
    assert world.runs_restored() == [1, 2, 3, 4, 5]


def test_failures_before_a_restore_are_forgiven(past):
    world = past(tolerable_failed_checkpoints=1)
    world.ask("fails")
    world.coordinator.abort(5, FailureReason.CHECKPOINT_DECLINED, "it declined")
    world.restore(1)
    world.ask("fails too")
    world.coordinator.abort(6, FailureReason.CHECKPOINT_DECLINED, "it declined")
    assert world.store.pipeline("p").status is PipelineStatus.RUNNING


def test_what_was_left_behind_goes_when_it_is_too_late_for_an_undo_and_savepoints_keep_what_they_rest_on(past):
    world = past(undo_within="1 d")
    world.take("mine", savepoint=True)
    world.take("r6")
    world.restore(2)
    world.take("r7")
    world.clock.advance(timedelta(days=1).total_seconds() + 1)
    world.coordinator.clean()
    assert world.ids() == ([1, 2, 7], [5])
    assert world.sink.withdrawn() == [3, 4, 5]
    assert not any(path.startswith("p/chk-6/") for path in world.storage.files)
    with pytest.raises(CheckpointNotRetainedError, match="1, 2, 5, 7"):
        world.coordinator.restore(Undo())
    world.restore(5)
    assert world.shown() == [1, 2, 3, 4, 5]
    world.take("r8")
    assert world.runs_restored() == [1, 2, 3, 4, 5]


def test_what_replaces_checkpoints_counts_only_those_of_the_present(past):
    world = past(retained=2)
    assert world.ids() == ([3, 4], [])
    world.restore(3)
    world.take("r5")
    assert world.ids() == ([3, 5], [4])
    world.take("r6")
    assert world.ids() == ([5, 6], [4])
    world.coordinator.restore(Undo())
    assert world.ids() == ([4], [5, 6])
    assert world.shown() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("target", "error"),
    [
        (ToCheckpoint(9), CheckpointNotFoundError),
        (ToCheckpoint(1), CheckpointNotRetainedError),
        (Undo(), NothingToUndoError),
    ],
)
def test_a_place_that_cannot_be_gone_back_to_is_refused_and_nothing_changes(past, target, error):
    world = past(retained=2)
    world.ask("r5")
    with pytest.raises(error, match="Nothing was changed"):
        world.coordinator.restore(target)
    assert world.store.checkpoint("p", 5).status is Status.IN_PROGRESS
    assert world.shown() == [1, 2, 3, 4]


def test_a_plan_is_not_carried_out_when_another_checkpoint_has_completed_since(past):
    world = past()
    plan = world.coordinator.plan_restore(ToCheckpoint(2))
    world.take("r5")
    with pytest.raises(RestoreRefusedError, match="has changed to 5"):
        world.coordinator.restore(ToCheckpoint(2), planned=plan)
    assert world.shown() == [1, 2, 3, 4, 5]


class OneWay:
    """A sink without the abilities of a `RewindableSink`."""

    def __init__(self, sink):
        self._sink = sink

    def __getattr__(self, name):
        if name in ("rewind", "shown_outside", "withdrawn", "delete_withdrawn"):
            raise AttributeError(name)
        return getattr(self._sink, name)


def test_a_sink_that_cannot_go_back_must_be_named(past):
    world = past()
    config = world.pipeline.checkpoints
    world.pipeline = small_pipeline(OneWay(world.sink))
    world.pipeline.checkpoints = config
    world.reopen(world.store)
    with pytest.raises(RestoreRefusedError, match="--leave out"):
        world.restore(2)
    assert world.ids() == ([1, 2, 3, 4], [])
    world.coordinator.restore(ToCheckpoint(2), Accepted(leave=("out",)))
    assert (world.ids(), world.shown()) == (([1, 2], [3, 4]), [1, 2, 3, 4])


def test_sinks_that_cannot_be_rewound_now_are_rewound_by_whoever_comes_next(past):
    world = past()

    def refuse(checkpoint_id):
        raise OSError("no space left")

    world.sink.before_rewind = refuse
    with pytest.raises(OSError, match="no space left"):
        world.restore(2)
    assert (world.ids(), world.shown()) == (([1, 2], [3, 4]), [1, 2, 3, 4])
    with pytest.raises(OSError, match="no space left"):
        world.ask("r5")
    world.sink.before_rewind = lambda checkpoint_id: None
    world.ask("r5")
    assert world.shown() == [1, 2]


@pytest.mark.parametrize("death", DEATHS)
def test_wherever_it_dies_it_is_the_old_moment_or_the_new_one_and_a_repeat_leads_to_the_new(past, death):
    world = past()
    store, at, survived = world.store, 0, False
    while not survived:
        mortal = MortalStore(store)
        world.reopen(mortal)
        mortal.plan = (at, death)
        try:
            world.coordinator.restore(ToCheckpoint(2))
            survived = mortal.plan is not None
        except (Crash, UnknownOutcomeError):
            pass
        world.reopen(store)
        world.clock.advance(60)  # a process that held a lease is dead
        assert world.ids() in (([1, 2], [3, 4]), ([1, 2, 3, 4], []))
        world.ask("look")
        world.coordinator.abort(world.store.history("p", 1)[0].checkpoint_id, FailureReason.TASK_FAILURE, "enough")
        assert world.shown() == (world.ids()[0])
        world.restore(2)
        assert (world.ids(), world.shown()) == (([1, 2], [3, 4]), [1, 2])
        world.restore(4)
        assert (world.ids(), world.shown()) == (([1, 2, 3, 4], []), [1, 2, 3, 4])
        at += 1
    assert at >= 5


def test_a_sink_that_is_gone_from_the_definition_must_be_named_too(past):
    world = past()
    world.pipeline.vertices = [vertex for vertex in world.pipeline.vertices if vertex.name != "out"]
    world.reopen(world.store)
    with pytest.raises(RestoreRefusedError, match="--leave out"):
        world.restore(2)
    with pytest.raises(RestoreRefusedError, match="no sink other"):
        world.coordinator.restore(ToCheckpoint(2), Accepted(leave=("out", "other")))
    world.coordinator.restore(ToCheckpoint(2), Accepted(leave=("out",)))
    assert world.shown() == [1, 2, 3, 4]


def test_what_tables_would_show_is_looked_at_before_it_is_too_late(past, monkeypatch):
    world = past()
    world.sink.input = SinkInput.CURRENT
    world.reopen(world.store)
    monkeypatch.setattr(world.sink, "verify", lambda staged, in_full: lost(staged))
    with pytest.raises(StateIntegrityError, match="chk-2"):
        world.restore(2)
    assert world.ids() == ([1, 2, 3, 4], [])


def lost(staged):
    raise StateIntegrityError(staged[0].path)


@pytest.mark.parametrize(("version", "used"), [(0, True), (1, False)], ids=["the same columns", "newer columns"])
def test_merged_runs_are_used_after_a_restore_unless_their_columns_are_newer(past, version, used):
    world = past()
    with world.store.transaction("p") as tx:
        runs = tx.subtasks(4)[OP].snapshot.handles
        merged = replace(
            runs[0], path="p/chk-4/op/0-compacted-x.parquet", created_by=4, details={"layout_version": version}
        )
        tx.add_compactions([CompactedRun(OP, merged, tuple(run.view for run in runs[:2]))])
    world.storage.files[merged.path] = world.storage.files[runs[0].path]
    world.restore(3)
    with world.store.transaction("p") as tx:
        assert [each.handle.path for each in tx.compactions()] == ([merged.path] if used else [])
    world.take("r5")
    assert world.runs_restored() == ([4, 3] if used else [1, 2, 3])
