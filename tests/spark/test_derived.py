"""A table with derived columns has what plain Python makes of its operator's state, whatever happens."""

from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running
from derived_script import DAY, Script
from dying_checkpoints import DiedError, attempt_until, finalize, rescaled
from spark_checkpoints import Checkpoints

pytestmark = pytest.mark.spark


def take(checkpoints: Checkpoints) -> None:
    checkpoints.trigger()
    checkpoints.attempt_once()
    finalize(checkpoints)


def test_scheduled_through_deletions_expiry_deaths_restores_and_other_code(spark: Any, tmp_path: Path) -> None:
    script, kept = Script(tmp_path, seed=1), {}
    checkpoints = Checkpoints(script.pipeline(), spark, tmp_path, clock=script.clock)
    for parallelism in (2, 2, 3, 1):
        if parallelism != checkpoints.pipeline.parallelism:
            checkpoints = rescaled(checkpoints, script.pipeline(parallelism))
        script.deliver(12)
        script.clock.advance(4 * DAY)
        checkpoints.trigger()
        with pytest.raises(DiedError):
            attempt_until(checkpoints, number=1, before=parallelism == 2)
        checkpoints.attempt_once()
        finalize(checkpoints)
        script.check(checkpoints)
        kept[checkpoints.checkpoint_id] = checkpoints.completed
    assert script.mirrors["even"].whole == [1, 3, 4]
    take(checkpoints)  # nothing has come, and nothing expires
    assert not any("whole" in h.details or h.created_by == 5 for h in checkpoints.staged("even"))
    script.clock.advance(11 * DAY)
    take(checkpoints)
    script.check(checkpoints)
    assert script.mirrors["lively"].rows() == []
    checkpoints.completed = kept[4]  # a restore
    for mirror in script.mirrors.values():
        mirror.rewind(4)
    script.deliver(3)
    take(checkpoints)
    script.check(checkpoints)
    script.factor = 100
    checkpoints = rescaled(checkpoints, script.pipeline(1))
    take(checkpoints)  # nothing has come, and every row is another one
    script.check(checkpoints)
    assert script.mirrors["even"].whole == [1, 3, 4, 8]
    assert script.mirrors["lively"].whole == [1, 3, 4]


def test_continuous_through_aborts_a_kill_and_other_code(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=11)
    running = Running(script.pipeline(), spark, tmp_path, clock=script.clock)
    for number in range(4):
        for _ in range(2):
            script.deliver(5)
            running.until_idle()
            script.clock.advance(3 * DAY)
        if number == 1:  # what came before its barrier goes with the next
            running.begin()
            running.until_acknowledged()
            running.abort()
        if number == 2:
            running.restart()
        running.take()
        script.check(running)
    assert script.mirrors["even"].whole == [1]
    script.factor = 100
    running.change(script.pipeline())
    running.take()
    script.check(running)
    assert script.mirrors["even"].whole == [1, running.checkpoint_id]
