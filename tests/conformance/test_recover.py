"""The database is lost, and a pipeline goes on from its checkpoint storage: on every store, whatever lies there and
wherever the recovery dies. The lost database is one in memory."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
from lost_databases import Lost, check_nothing_is_recorded
from memory_store import MemoryCheckpointStore
from pasts import ExactStorage
from user_actions import resume, suspend
from worlds import DEATHS, CapturingRegion, Crash, Judge, MortalStore

from tidegate.coordination.context import context_of
from tidegate.coordination.recovery.lost_database import Recovering
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.protocol.facts.errors import (
    PipelineIdentityError,
    RecoveryRefusedError,
    SupersededAttemptError,
    UnknownOutcomeError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.recovery.identity import Endpoint, Role
from tidegate.protocol.recovery.lost_database import WITHOUT_TRACE
from tidegate.protocol.steps.trigger import AlreadyCompleted, Triggered


def test_what_the_database_knew_is_there_again_and_the_pipeline_goes_on(lost):
    world, lose = lost
    lose()
    files = dict(world.storage.files)
    plan = world.recover()
    assert [each.record.checkpoint_id for each in plan.checkpoints] == [1, 2, 3, 4]
    assert (plan.unrecovered, plan.lost, plan.moved) == ((), [], ())
    assert world.storage.files == files
    for id_ in (1, 2, 3, 4):
        before, now = world.before.checkpoint("p", id_), world.store.checkpoint("p", id_)
        assert replace(now, notified_at=before.notified_at) == before
        assert (now.notified_at is None) == (id_ == 4)
        assert world.store.subtasks("p", id_) == world.before.subtasks("p", id_)
        assert world.store.verdicts("p", id_) == world.before.verdicts("p", id_)
    assert world.store.pipeline("p").status is PipelineStatus.RUNNING
    with world.store.transaction("p") as tx, world.before.transaction("p") as known:
        assert sorted(tx.endpoints(), key=str) == sorted(known.endpoints(), key=str)
    assert world.ask("r3") == AlreadyCompleted(3)
    assert world.take("r5") == 5
    assert [handle.created_by for handle in world.restored] == [1, 2, 3, 4]
    assert world.shown() == [1, 2, 3, 4, 5]
    world.coordinator.restore(ToCheckpoint(2))
    assert (world.ids(), world.shown()) == (([1, 2], [3, 4, 5]), [1, 2])


def test_nothing_begins_next_to_completed_checkpoints_that_the_database_does_not_know(lost):
    world, lose = lost
    lose()
    for begin in (lambda: world.ask("r5"), world.coordinator.start_region):
        with pytest.raises(PipelineIdentityError, match=r"but 4 completed ones are on .* `tidegate recover p` brings"):
            begin()
    check_nothing_is_recorded(world)
    world.recover()
    assert world.take("r5") == 5


def test_the_plan_changes_nothing(lost):
    world, lose = lost
    lose()
    world.recovering.plan()
    check_nothing_is_recorded(world)


def test_attempts_are_as_they_were(lost):
    world, lose = lost
    world.ask("r5")
    for _ in range(2):
        with pytest.raises(Exception, match="only 0 of 6 subtasks"):
            world.coordinator.snapshot(5, CapturingRegion())
        world.clock.advance(1)
    world.snapshot(5)
    world.coordinator.validate(5, Judge(True))
    world.coordinator.finalize(5)
    world.coordinator.notify(5)
    lose()
    world.recover()
    assert {known.attempt for known in world.store.subtasks("p", 5).values()} == {3}
    assert world.store.subtasks("p", 5) == world.before.subtasks("p", 5)


def test_what_has_finished_has_finished(store):
    world = Lost()
    world.complete(world.ask("r1").checkpoint_id, "src/0")
    world.complete(world.ask("r2").checkpoint_id)
    assert {known.attempt for known in world.store.subtasks("p", 2).values()} == {0, 1}
    world.lose(store)
    world.recover()
    assert world.store.subtasks("p", 2) == world.before.subtasks("p", 2)
    assert world.store.checkpoint("p", 2).num_finished == 1
    world.complete(world.ask("r3").checkpoint_id, "src op out-sink")
    assert world.store.pipeline("p").status is PipelineStatus.FINISHED


def test_a_checkpoint_whose_sinks_had_not_committed_is_made_visible_by_the_next_run(lost):
    world, lose = lost
    world.finalize("r5")

    def die(checkpoint_id):
        raise Crash

    world.sink.before_commit = die
    with pytest.raises(Crash):
        world.coordinator.notify(5)
    world.sink.before_commit = lambda checkpoint_id: None
    lose()
    world.recover()
    assert world.shown() == [1, 2, 3, 4]
    world.ask("r6")
    assert world.shown() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("included", [True, False])
def test_one_without_a_marker_is_in_doubt_and_either_answer_gives_its_rows_once(lost, included):
    world, lose = lost
    world.finalize("r5")
    lose()
    (left,) = world.recovering.plan().unrecovered
    assert (left.checkpoint_id, left.in_doubt) == (5, True)
    world.recover(*([5] if included else []))
    assert world.store.history("p", 1)[0].checkpoint_id == (5 if included else 4)
    assert world.take("r6") == 6
    assert world.shown() == ([1, 2, 3, 4, 5, 6] if included else [1, 2, 3, 4, 6])
    assert [handle.created_by for handle in world.restored] == ([1, 2, 3, 4, 5] if included else [1, 2, 3, 4])


def test_restores_that_a_later_checkpoint_followed_are_known_and_can_be_undone(lost):
    world, lose = lost
    world.coordinator.restore(ToCheckpoint(2))
    world.take("r3")
    lose()
    world.recover()
    assert (world.ids(), world.shown()) == (([1, 2, 5], [3, 4]), [1, 2, 5])
    with world.store.transaction("p") as tx, world.before.transaction("p") as known:
        assert tx.restores() == known.restores()
    world.take("r6")
    assert [handle.created_by for handle in world.restored] == [1, 2, 5]
    assert world.shown() == [1, 2, 5, 6]
    world.coordinator.restore(Undo())
    assert (world.ids(), world.shown()) == (([1, 2, 3, 4], [5, 6]), [1, 2, 3, 4])


@pytest.mark.parametrize("rewound", [True, False])
def test_a_restore_that_no_checkpoint_has_followed_is_not_forgotten(lost, rewound):
    world, lose = lost

    def die(checkpoint_id):
        raise Crash

    world.sink.before_rewind = (lambda checkpoint_id: None) if rewound else die
    with nullcontext() if rewound else pytest.raises(Crash):
        world.coordinator.restore(ToCheckpoint(2))
    world.sink.before_rewind = lambda checkpoint_id: None
    lose()
    assert world.recover().lost == []
    assert world.ids() == ([1, 2], [3, 4])
    world.clock.advance(60)
    assert world.take("r5") == 5
    assert [handle.created_by for handle in world.restored] == [1, 2]
    assert world.shown() == [1, 2, 5]


def test_an_undo_that_no_checkpoint_has_followed_is_not_forgotten(lost):
    world, lose = lost
    world.coordinator.restore(ToCheckpoint(2))
    world.take("r5")
    world.coordinator.restore(Undo())
    lose()
    world.recover()
    assert (world.ids(), world.shown()) == (([1, 2, 3, 4], [5]), [1, 2, 3, 4])
    assert world.take("r6") == 6
    assert [handle.created_by for handle in world.restored] == [1, 2, 3, 4]
    assert world.shown() == [1, 2, 3, 4, 6]
    world.lose(MemoryCheckpointStore())
    world.recover()
    assert (world.ids(), world.shown()) == (([1, 2, 3, 4, 6], [5]), [1, 2, 3, 4, 6])


def test_a_database_that_knows_checkpoints_of_the_pipeline_is_refused(lost):
    world, lose = lost
    lose()
    plan = world.recovering.plan()
    world.recover()
    before = world.store.history("p", 9)
    with pytest.raises(RecoveryRefusedError, match="already knows checkpoints of pipeline p"):
        world.recovering.plan()
    with pytest.raises(RecoveryRefusedError, match="already knows checkpoints of pipeline p"):
        world.recovering.recover(plan)
    assert world.store.history("p", 9) == before


def test_no_number_that_anything_carries_is_given_out_again(lost):
    world, lose = lost
    region = world.coordinator.start_region()
    world.coordinator.end_region(region.attempt)
    world.storage.files |= {"p/chk-7/op/0-1-y.parquet": b"", "p/shared/3/op/0-3-z.parquet": b""}
    with world.store.transaction("p") as tx:
        newest = tx.committer().attempt
    lose()
    there, world.storage = world.storage, ExactStorage()
    world.reopen(world.store)
    table, world.sink.visible = world.sink.visible, {}
    stale = world.coordinator.start_region()  # somebody began in the empty database, with another storage and table
    world.storage, world.sink.visible = there, table
    world.reopen(world.store)
    left = {each.checkpoint_id: each.reason for each in world.recover().unrecovered}
    assert left == {7: "It has no _metadata: it had not completed, or was deleted."}
    with pytest.raises(SupersededAttemptError):
        world.coordinator.keep_region(stale.attempt)
    with world.store.transaction("p") as tx:
        assert tx.last_checkpoint_id() == 7
        assert tx.region().attempt == 3 + WITHOUT_TRACE
        assert tx.committer().attempt >= newest + WITHOUT_TRACE
    assert world.ask("r5") == Triggered(8)
    suspend(world.coordinator)
    world.clock.advance(7200)
    world.coordinator.clean()
    assert {"p/chk-7/op/0-1-y.parquet", "p/shared/3/op/0-3-z.parquet"} <= world.storage.files.keys()


def test_a_pipeline_that_was_suspended_meanwhile_stays_so(lost):
    world, lose = lost
    lose()
    suspend(world.coordinator)
    world.recover()
    assert world.store.pipeline("p").status is PipelineStatus.SUSPENDED
    resume(world.coordinator)
    assert world.take("r5") == 5


def test_sources_and_sinks_that_are_elsewhere_must_be_confirmed_and_are_recorded_where_they_are(lost, monkeypatch):
    world, lose = lost
    lose()
    monkeypatch.setattr(type(world.sink), "describe", lambda self: {"type": "MemorySink", "path": "/moved"})
    world.reopen(world.store)
    with pytest.raises(PipelineIdentityError, match="sink 'out' is MemorySink, and here it is MemorySink at /moved"):
        world.recover()
    check_nothing_is_recorded(world)
    world.recover(moved=True)
    with world.store.transaction("p") as tx:
        assert Endpoint(Role.SINK, "out", "MemorySink", "/moved") in tx.endpoints()
    assert world.take("r5") == 5


@pytest.mark.parametrize("death", DEATHS)
def test_wherever_it_dies_nothing_has_happened_or_all_of_it(lost, death):
    world, lose = lost
    lose()
    plan, store, at, survived = world.recovering.plan(), world.store, 0, False
    while not survived:
        mortal = MortalStore(store)
        recovering = Recovering(context_of(world.coordinator.graph, mortal, world.storage, world.clock))
        mortal.plan = (at, death)
        try:
            recovering.recover(plan)
            survived = mortal.plan is not None
        except (Crash, UnknownOutcomeError):
            pass
        except RecoveryRefusedError:
            survived = True
        if store.history("p", 9) == []:
            check_nothing_is_recorded(world)
            world.recovering.recover(plan)
        assert [record.status for record in store.history("p", 9)] == [Status.COMPLETED] * 4
        at += 1
    world.take("r5")
    assert world.shown() == [1, 2, 3, 4, 5]
