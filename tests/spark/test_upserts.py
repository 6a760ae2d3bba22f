"""A sink of upserts has what its operator's state has, whatever happens in between."""

from pathlib import Path
from typing import Any

import pytest
from dying_checkpoints import DiedError, attempt_until, finalize, rescaled
from spark_checkpoints import Checkpoints
from upserted_script import DAY, Script

from tidegate.protocol.facts.records import SubtaskId
from tidegate.protocol.steps.sink_marks import without_mark

pytestmark = pytest.mark.spark


def take(checkpoints: Checkpoints) -> None:
    checkpoints.trigger()
    checkpoints.attempt_once()
    finalize(checkpoints)


def opened(script: Script, spark: Any, tmp_path: Path, **options: Any) -> Checkpoints:
    return Checkpoints(script.pipeline(**options), spark, tmp_path, clock=script.clock)


def test_tables_have_what_state_has_through_deletions_expiry_and_other_parallelisms(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=1)
    checkpoints = opened(script, spark, tmp_path)
    for parallelism in (2, 2, 2, 3, 1):
        if parallelism != checkpoints.pipeline.parallelism:
            checkpoints = rescaled(checkpoints, script.pipeline(parallelism))
        script.deliver()
        script.clock.advance(script.random.choice([0, 3, 8]) * DAY)
        take(checkpoints)
        script.check(checkpoints)
    whole = {name: mirror.whole for name, mirror in script.mirrors.items()}
    assert whole["kept"] == whole["lively"] == whole["recent"] == [1, 4, 5]
    script.clock.advance(11 * DAY)
    take(checkpoints)  # nothing has come
    script.check(checkpoints)
    assert script.mirrors["lively"].rows() == []
    take(checkpoints)
    assert not checkpoints.staged("kept")
    assert not checkpoints.staged("lively")


def test_an_attempt_that_dies_and_a_checkpoint_that_is_aborted_leave_no_trace(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=2)
    checkpoints = opened(script, spark, tmp_path)
    for number in range(3):
        script.deliver()
        script.clock.advance(4 * DAY)
        checkpoints.trigger()
        with pytest.raises(DiedError):
            attempt_until(checkpoints, number=1, before=number % 2 == 0)
        script.clock.advance(100 * DAY)
        if number == 2:  # aborted, and what it had read comes with the next
            checkpoints.trigger()
        checkpoints.attempt_once()
        finalize(checkpoints)
        script.check(checkpoints)


def test_after_a_restore_tables_go_on_from_where_they_were_then(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=3)
    checkpoints = opened(script, spark, tmp_path)
    kept = {}
    for _ in range(4):
        script.deliver()
        script.clock.advance(4 * DAY)
        take(checkpoints)
        kept[checkpoints.checkpoint_id] = checkpoints.completed
    for to in (2, 3):
        checkpoints.completed = kept[to]
        for mirror in script.mirrors.values():
            mirror.rewind(to)
        take(checkpoints)
        script.check(checkpoints)
    assert script.mirrors["kept"].whole == [1]


def test_a_sink_that_joins_later_is_given_all_rows_once(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=4)
    checkpoints = opened(script, spark, tmp_path)
    script.deliver(20)
    take(checkpoints)
    checkpoints = rescaled(checkpoints, script.pipeline(joined=True))
    for _ in range(2):
        take(checkpoints)
        assert script.mirrors["late"].rows() == checkpoints.rows("state:lively")
    assert script.mirrors["late"].whole == [2]
    assert script.mirrors["kept"].whole == [1]


def test_in_another_database_a_table_is_given_all_rows_also_if_there_are_none(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=5)
    checkpoints = opened(script, spark, tmp_path)
    script.deliver(20)
    take(checkpoints)
    script.clock.advance(11 * DAY)
    checkpoints.completed = {id_: without_mark(snapshot) for id_, snapshot in checkpoints.completed.items()}
    take(checkpoints)
    script.check(checkpoints)
    assert script.mirrors["lively"].rows() == []
    assert script.mirrors["lively"].whole == [1, 2]


def test_rows_in_other_columns_are_given_again(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=6)
    checkpoints = opened(script, spark, tmp_path)
    script.deliver(20)
    take(checkpoints)
    checkpoints = rescaled(checkpoints, script.pipeline(ttl="3 d"))
    script.deliver(1)
    take(checkpoints)
    script.check(checkpoints)
    assert script.mirrors["kept"].whole == [1, 2]
    assert script.mirrors["lively"].whole == [1]


def test_what_is_judged_are_rows_and_not_keys_that_are_gone(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=7)
    checkpoints = opened(script, spark, tmp_path)
    script.put("a", 1)
    script.put("b", 2)
    take(checkpoints)
    script.put("a", -1)
    script.put("b", 3)
    take(checkpoints)
    assert sorted(handle.rows for handle in checkpoints.staged("kept")) == [1, 1]
    assert checkpoints.rows("sink:kept") == [("b", 3)]
    script.check(checkpoints)


def test_what_a_sink_has_is_no_state_that_is_lost_with_it(spark: Any, tmp_path: Path) -> None:
    script = Script(tmp_path, seed=8)
    checkpoints = opened(script, spark, tmp_path, joined=True)
    script.deliver(20)
    take(checkpoints)
    assert checkpoints.completed[SubtaskId("late-sink", 0)].position
    checkpoints = rescaled(checkpoints, script.pipeline())
    take(checkpoints)
    assert checkpoints.completed[SubtaskId("kept-sink", 0)].position
