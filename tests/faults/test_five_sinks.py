"""Three tables in the commit and two sinks after it, killed before and after every effect of a checkpoint or a restore,
against a run that nothing interrupts."""

from datetime import timedelta
from typing import Any

import pytest
from five_sinks import FILES, five_sinks
from sizes import sizes

from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.testing import crash_test
from tidegate.testing.crash_worlds import CrashWorld, crash_world, require_equal
from tidegate.testing.effects import Crash

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


@sizes("only", sample="Upsert.run", whole="")
def test_a_checkpoint_that_is_killed_anywhere_is_in_all_tables_once(only: str, spark: Any) -> None:
    report = crash_test(five_sinks, FILES, spark=spark, only=only)
    assert report.crashes >= (2 if only else 50)


@sizes("only", sample="RewindUpserted.run", whole="")
def test_a_restore_that_is_killed_anywhere_takes_all_tables_back_and_forth(only: str, spark: Any) -> None:
    with crash_world(five_sinks(retained=9), spark, {}, only) as world, world.here():
        past = {}
        for number, files in enumerate(FILES[:3]):
            world.deliver(number, files)
            checkpoint_id = world.pipeline.run(f"straight-{number}")
            past[checkpoint_id] = world.outcome()
        at, crashes, survived = 0, 0, False
        while not survived:
            survived = True
            for back, before in ((1, True), (3, True), (1, False), (3, False)):
                died = dies(world, back, at, before)
                crashes, survived = crashes + died, survived and not died
                world.pipeline.coordinator.restore(ToCheckpoint(back))
                when = f"Killed {'before' if before else 'after'} effect {at}, {world.pipeline.died_at}, and repeated"
                require_equal(world.outcome(), past[back], when)
            at += 1
        assert crashes >= (4 if only else 50)
        world.pipeline.coordinator.restore(ToCheckpoint(2))
        world.pipeline.coordinator.restore(Undo())
        require_equal(world.outcome(), past[3], "Undone")
        world.deliver(3, FILES[3])
        world.pipeline.run("and on")


def dies(world: CrashWorld, checkpoint_id: int, at: int, before: bool) -> bool:
    """Restore in a process that dies at an effect. Whether it came there."""
    pipeline = world.pipeline
    pipeline.effects.die(at, before)
    try:
        pipeline.coordinator.restore(ToCheckpoint(checkpoint_id))
    except Crash:
        pipeline.died_at = pipeline.effects.log[-1]
        pipeline.clock.shift += timedelta(minutes=1)  # the holder of the lease is dead
        return True
    finally:
        pipeline.effects.die(None)
    return False
