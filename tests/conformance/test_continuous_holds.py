"""A checkpoint of a continuous run that is held: the region reads on, and everything behind it waits."""

from collections.abc import Callable

import pytest
from live_pipelines import Live
from user_actions import approve, reject
from worlds import Judge

from tidegate.protocol.facts.errors import (
    CheckpointHeldError,
    StorageError,
)
from tidegate.protocol.facts.lifecycle import COMMITTED, Phase

HOLD = 7200  # seconds; the timeout is 600


def held_live(live: Callable[..., Live], until: float = 60, **arranged: Callable[[Live], object]) -> Live:
    """A checkpoint is asked for every ten seconds; the first one breaks its rule, no other does."""
    pipeline = live(hold_for="2 h", interval="10 s", timeout="20 s")
    pipeline.judge = Judge("held")
    for second, what in arranged.items():
        pipeline.at(float(second[1:]), lambda what=what: what(pipeline))  # type: ignore[misc]
    pipeline.run(until)
    return pipeline


def approve_live(pipeline: Live) -> None:
    pipeline.judge.verdict = True
    approve(pipeline.world.coordinator, None, "ada")


def test_a_continuous_run_reads_on_and_takes_no_checkpoint_until_somebody_decides(live: Callable[..., Live]) -> None:
    pipeline = held_live(live)
    assert [(id_, status) for id_, _, status in pipeline.history()] == [(1, "IN_PROGRESS")]
    assert pipeline.world.record(1).phase is Phase.HELD
    assert pipeline.judge.asked == 1
    assert pipeline.regions[0].read > 40


def test_an_approved_checkpoint_of_a_continuous_run_completes_and_others_follow(live: Callable[..., Live]) -> None:
    pipeline = held_live(live, s50=approve_live)
    assert [id_ for id_, _, _ in pipeline.history()] == [1, 2]
    assert all(pipeline.world.record(id_).status in COMMITTED for id_ in (1, 2))
    assert pipeline.world.record(1).decided_by == "ada"
    pipeline.check()


def test_a_rejected_checkpoint_of_a_continuous_run_is_aborted_and_its_rows_come_again(
    live: Callable[..., Live],
) -> None:
    def reject_live(pipeline: Live) -> None:
        pipeline.judge.verdict = True
        reject(pipeline.world.coordinator, None, "ada")

    pipeline = held_live(live, s30=reject_live)
    statuses = [status for _, _, status in pipeline.history()]
    assert statuses[0] == "VALIDATION_REJECTED"
    assert statuses[-1] == "COMPLETED"
    assert "aborted 1, latest -1" in pipeline.notified
    pipeline.check()


def test_a_continuous_run_ends_a_hold_in_time(live: Callable[..., Live]) -> None:
    pipeline = held_live(live, HOLD + 60, s30=lambda pipeline: pipeline.world.clock.advance(HOLD))
    assert pipeline.history()[0][2] == "HOLD_EXPIRED"
    assert "aborted 1, latest -1" in pipeline.notified


def test_no_region_starts_while_a_checkpoint_is_held_and_what_was_approved_completes_first(
    live: Callable[..., Live],
) -> None:
    pipeline = held_live(live)
    with pytest.raises(CheckpointHeldError, match="tidegate approve p 1"):
        pipeline.run(70)
    assert pipeline.world.record(1).phase is Phase.HELD
    approve_live(pipeline)
    pipeline.run(100)
    assert pipeline.world.record(1).status in COMMITTED
    assert len(pipeline.regions) == 2
    pipeline.check()


def test_a_hold_that_has_ended_keeps_no_region_from_starting(live: Callable[..., Live]) -> None:
    pipeline = held_live(live)
    pipeline.world.clock.advance(HOLD)
    pipeline.judge.verdict = True
    pipeline.run(pipeline.second + 30)
    assert pipeline.history()[0][2] == "HOLD_EXPIRED"
    pipeline.check()


def test_an_approved_checkpoint_that_cannot_be_finalized_is_aborted_when_a_region_starts(
    live: Callable[..., Live],
) -> None:
    pipeline = held_live(live)
    approve_live(pipeline)
    write, pipeline.world.storage.write = pipeline.world.storage.write, _refuse
    pipeline.run(pipeline.second)
    pipeline.world.storage.write = write
    assert pipeline.history()[0][2] == "FINALIZE_CHECKPOINT_FAILURE"


def _refuse(path: str, content: bytes) -> None:
    raise StorageError("the disk is full")
