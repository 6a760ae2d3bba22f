"""A sink of upserts has what its operator's state has, in a continuous run too."""

from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running
from upserted_script import DAY, Script

pytestmark = pytest.mark.spark


def test_tables_have_what_state_has_whatever_becomes_of_checkpoints(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=11)
    running = Running(script.pipeline(), spark, tmp_path, clock=script.clock)
    for number in range(4):
        for _ in range(2):
            script.deliver(3)
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
    assert script.mirrors["kept"].whole == [1]
    overlapping(script, running)
    script.check(running)
    assert script.mirrors["kept"].whole == [1, running.checkpoint_id]
    running.take()
    script.check(running)
    assert script.mirrors["kept"].whole == [1, running.checkpoint_id - 1]


def overlapping(script: Script, running: Running) -> None:
    """Two checkpoints, of which the second begins while the first is in progress. The first deletes what it can."""
    taken = []
    for value in (-1, 3):
        for key in "abcdefghij":
            script.put(key, value)
        running.until_idle()
        running.begin()
        running.until_acknowledged()
        taken.append((running.checkpoint_id, running.acknowledged))
    for running.checkpoint_id, running.acknowledged in taken:
        running.complete()
