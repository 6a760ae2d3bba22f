"""Plans for changed code, on every store: they read, and change nothing."""

from pasts import OP, Past
from user_actions import suspend

from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.recovery.changes import ChangeVerdict


def verdicts(planned):
    return {each.verdict for each in planned.vertices}


def test_a_pipeline_that_never_ran_is_new_and_stays_unknown(store):
    planned = Past(store).coordinator.planning.plan()
    assert (planned.record, verdicts(planned)) == (None, {ChangeVerdict.NEW})
    assert store.pipelines() == []


def test_the_code_that_ran_last_can_go_on_and_the_plan_changes_nothing(store):
    world = Past(store, retained=9)
    world.take("r1")
    before = store.pipeline("p"), store.history("p", 9), dict(world.storage.files)
    planned = world.coordinator.planning.plan()
    assert (planned.record.checkpoint_id, verdicts(planned)) == (1, {ChangeVerdict.SAME})
    assert {OP.operator_id} <= {each.name for each in planned.vertices}
    assert (store.pipeline("p"), store.history("p", 9), dict(world.storage.files)) == before
    world.take("r2")
    world.coordinator.restore(ToCheckpoint(1))
    assert world.coordinator.planning.plan().record.checkpoint_id == 1


def test_a_pipeline_that_takes_no_checkpoints_says_what_leads_to_the_next_one(store):
    world = Past(store, retention="RETAIN_ON_CANCELLATION")
    world.take("r1")
    suspend(world.coordinator)
    assert "can go on from checkpoint 1. It is SUSPENDED: `tidegate resume p` lets it." in (
        world.coordinator.planning.plan().summary()
    )
    world.coordinator.cancel()
    cancelled = world.coordinator.planning.plan()
    assert not cancelled.refuses
    assert "It is CANCELLED: `tidegate restore p --latest` runs it again, from there." in cancelled.summary()
    world.coordinator.restore(ToCheckpoint(None))
    assert world.coordinator.planning.plan().summary() == "Pipeline p can go on from checkpoint 1."
