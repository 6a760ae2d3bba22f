"""The process that took the snapshot may judge at once. Only verdicts that are all good count."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from desks import Desk
from worlds import DEATHS, Crash, Judge, MortalStore

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import (
    CheckpointError,
    CheckpointNotInProgressError,
    UnknownOutcomeError,
    ValidationFailedError,
)
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import CheckpointRecord, SubtaskId, SubtaskRecord, Verdict


@pytest.fixture
def desk(store: CheckpointStore) -> Desk:
    """A checkpoint whose subtasks have acknowledged."""
    desk = Desk(store, hold_for="2 h")
    desk.ask("first")
    desk.acknowledge(1)
    return desk


def test_good_verdicts_stand_and_the_step_judges_nothing_again(desk: Desk) -> None:
    assert desk.coordinator.validation.validate_early(1, Judge(True))
    assert desk.record(1).phase is Phase.VALIDATED
    assert [verdict.success for verdict in desk.store.verdicts("p", 1)] == [True]
    assert desk.coordinator.validation.validate_early(1, Judge(False))
    desk.coordinator.validate(1, later := Judge(False))
    assert later.asked == 0
    desk.coordinator.finalize(1)
    desk.coordinator.notify(1)
    assert set(desk.sink.visible) == {1}


@pytest.mark.parametrize("verdict", [False, None, "missing", "held"])
def test_anything_else_is_left_to_the_step(desk: Desk, verdict: bool | str | None) -> None:
    assert not desk.coordinator.validation.validate_early(1, Judge(verdict))
    record = desk.record(1)
    assert (record.status, record.phase, record.held_at) == (Status.IN_PROGRESS, Phase.ACKNOWLEDGED, None)
    assert list(desk.store.verdicts("p", 1)) == []
    with pytest.raises(ValidationFailedError):
        desk.coordinator.finalize(1)
    with pytest.raises(CheckpointError):
        desk.coordinator.validate(1, Judge(verdict))
    assert desk.record(1).phase is (Phase.HELD if verdict == "held" else Phase.ACKNOWLEDGED)
    assert desk.sink.visible == {}


def test_it_takes_nothing_of_a_checkpoint_that_ends_meanwhile(desk: Desk) -> None:
    class Slow(Judge):
        def validate(
            self,
            checkpoint: CheckpointRecord,
            subtasks: Mapping[SubtaskId, SubtaskRecord],
            settled: Sequence[Verdict] = (),
        ) -> Sequence[Verdict]:
            desk.coordinator.abort(1, FailureReason.COORDINATOR_SUSPEND, "somebody aborted it")
            return super().validate(checkpoint, subtasks, settled)

    for verdict in (True, False):
        with pytest.raises(CheckpointNotInProgressError):
            desk.coordinator.validation.validate_early(1, Slow(verdict))
        assert desk.record(1).status is Status.FAILED
        assert list(desk.store.verdicts("p", 1)) == []


def test_it_waits_for_every_subtask(store: CheckpointStore) -> None:
    desk = Desk(store)
    desk.ask("first")
    with pytest.raises(ValidationFailedError, match="Run the snapshot step"):
        desk.coordinator.validation.validate_early(1, judge := Judge(True))
    assert judge.asked == 0


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("transaction", [0, 1])
def test_a_process_that_dies_leaves_the_step_to_be_taken(desk: Desk, transaction: int, how: str) -> None:
    mortal: Any = MortalStore(desk.store)
    desk.reopen(mortal)
    mortal.plan = (transaction, how)
    with pytest.raises((Crash, UnknownOutcomeError)):
        desk.coordinator.validation.validate_early(1, Judge(True))
    was_recorded = (transaction, "after" in how) == (1, True)
    assert (desk.record(1).phase is Phase.VALIDATED) == was_recorded == bool(desk.store.verdicts("p", 1))
    desk.reopen(desk.store)
    desk.coordinator.validate(1, Judge(True))
    desk.coordinator.finalize(1)
    assert desk.record(1).status is Status.COMPLETED
