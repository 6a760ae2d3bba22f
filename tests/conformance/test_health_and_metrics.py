"""Whether a pipeline is well, and its figures: recorded with what happens, and no harm to it."""

from datetime import timedelta

import pytest
from ears import Ear, fail, told
from user_actions import STOPS
from ways_to_fail import take

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.reasons import FailureReason


def test_a_stale_pipeline_is_told_once_and_once_when_it_is_well_again(desk):
    world, ear = desk(stale_after="30 min", timeout="5 h"), Ear()
    told(world, ear)
    take(world, "a")
    health = world.coordinator.reporting.watch()
    assert (health.well, health.stale_at) == (True, world.clock.now() + timedelta(minutes=30))
    world.clock.advance(1800)
    for _ in range(3):
        health = world.coordinator.reporting.watch()
    assert (health.well, health.stale) == (False, True)
    assert "It is stale since" in health.summary()
    assert ear.said == [("PIPELINE_STALE", None)]
    take(world, "b")
    for _ in range(3):
        health = world.coordinator.reporting.watch()
    assert health.well
    assert ear.said == [("PIPELINE_STALE", None), ("PIPELINE_FRESH", None)]
    world.clock.advance(1800)
    world.coordinator.reporting.watch()
    assert ear.said[2:] == [("PIPELINE_STALE", None)]
    assert world.store.pipeline("p").stale_since == world.clock.now()


@pytest.mark.parametrize("end", ["suspend", "cancel"])
def test_a_pipeline_that_somebody_stopped_is_not_stale(desk, end):
    world, ear = desk(stale_after="30 min", retention="RETAIN_ON_CANCELLATION"), Ear()
    told(world, ear)
    take(world, "a")
    STOPS[end](world.coordinator)
    world.clock.advance(10**6)
    assert world.coordinator.reporting.watch().well
    assert ear.heard == []


def test_a_checkpoint_that_failed_by_itself_is_not_well_until_the_next_completes(desk):
    world = desk()
    take(world, "a")
    world.ask("b")
    world.coordinator.abort(2, FailureReason.COORDINATOR_SUSPEND, "asked for")
    assert world.coordinator.reporting.watch().well
    fail(world, "c")
    health = world.coordinator.reporting.watch()
    assert (health.well, health.failing.checkpoint_id) == (False, 3)
    assert "Checkpoint 3 failed, TASK_FAILURE" in health.summary()
    take(world, "d")
    assert world.coordinator.reporting.watch().well


# -- figures


class Gauge:
    def __init__(self, raises=False):
        self.known, self.raises, self.flushed = [], raises, 0

    def record(self, pipeline_id, metrics, lag):
        self.known.append(metrics)
        if self.raises:
            raise OSError("secret")

    def flush(self):
        self.flushed += 1
        if self.raises:
            raise OSError("secret")


def test_figures_are_recorded_by_whoever_begins_completes_or_fails_a_checkpoint(desk):
    world, meter = desk(retained=1), Gauge()
    world.coordinator = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock, meters=[meter])
    world.ask("a")
    assert (meter.known[-1]["numberOfInProgressCheckpoints"], meter.known[-1]["lastCompletedCheckpointId"]) == (1, -1)
    world.clock.advance(2)
    world.complete(1)
    known = meter.known[-1]
    assert (known["numberOfInProgressCheckpoints"], known["numberOfCompletedCheckpoints"]) == (0, 1)
    assert (known["lastCompletedCheckpointId"], known["lastCheckpointDuration"]) == (1, 2000)
    take(world, "b")
    fail(world, "c")
    known = meter.known[-1]
    assert [known[name] for name in ("totalNumberOfCheckpoints", "numberOfCompletedCheckpoints")] == [3, 2]
    assert (known["numberOfFailedCheckpoints"], known["lastCompletedCheckpointId"]) == (1, 2)


def test_a_meter_that_raises_harms_nobody(desk, caplog):
    world, meter = desk(), Gauge(raises=True)
    world.coordinator = CheckpointCoordinator(world.pipeline, world.store, world.storage, world.clock, meters=[meter])
    take(world, "a")
    world.coordinator.reporting.flush()
    assert world.store.checkpoint("p", 1).status is Status.COMPLETED
    assert "(OSError)" in caplog.text
    assert "secret" not in caplog.text
