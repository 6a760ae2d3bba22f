"""Moving through the phases, and the verdicts on the way."""

from dataclasses import replace

import pytest
from store_steps import PIPELINE, SUBTASKS, acknowledged, acknowledgement, at, triggered, validated

from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import Verdict

GOOD = Verdict(
    Target.parse("sink:carriers"),
    "carriers",
    True,
    2,
    0,
    ({"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "carrier"}, "success": True},),
    docs_path="docs/1/index.html",
)
BROKEN = Verdict(Target.parse("state:carriers"), "totals", None, 0, 0, error="column 'minutes' does not exist")


def test_a_checkpoint_is_acknowledged_once_every_subtask_has(store: CheckpointStore) -> None:
    acknowledged(store)
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.phase, kept.acknowledged_at, kept.num_acknowledged) == (Phase.ACKNOWLEDGED, at(11), 4)


def test_a_subtask_that_is_missing_holds_the_phase_back(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(s, 1) for s in SUBTASKS[:3]], at(3))
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.advance(1, Phase.TRIGGERED, Phase.ACKNOWLEDGED, at(4))
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.phase, kept.acknowledged_at) == (Phase.TRIGGERED, None)


def test_validation_is_recorded_with_its_time(store: CheckpointStore) -> None:
    validated(store)
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.status, kept.phase, kept.validated_at) == (Status.IN_PROGRESS, Phase.VALIDATED, at(20))


def test_the_second_to_advance_has_lost_the_race(store: CheckpointStore) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as transaction:
        assert transaction.advance(1, Phase.ACKNOWLEDGED, Phase.VALIDATED, at(20))
        assert not transaction.advance(1, Phase.ACKNOWLEDGED, Phase.VALIDATED, at(21))
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert kept.validated_at == at(20)


def test_an_unknown_checkpoint_does_not_advance(store: CheckpointStore) -> None:
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.advance(9, Phase.TRIGGERED, Phase.ACKNOWLEDGED, at(4))


@pytest.mark.parametrize(
    ("before", "after"), [(Phase.ACKNOWLEDGED, Phase.TRIGGERED), (Phase.ACKNOWLEDGED, Phase.ACKNOWLEDGED)]
)
def test_no_phase_leads_back(store: CheckpointStore, before: Phase, after: Phase) -> None:
    acknowledged(store)
    with pytest.raises(ValueError, match="cannot follow"), store.transaction(PIPELINE) as transaction:
        transaction.advance(1, before, after, at(20))
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.phase, kept.acknowledged_at) == (Phase.ACKNOWLEDGED, at(11))


def test_validation_cannot_be_reached_past_the_acknowledgements(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_acknowledgements(1, [acknowledgement(s, 1) for s in SUBTASKS], at(3))
    with pytest.raises(ValueError, match="cannot follow"), store.transaction(PIPELINE) as transaction:
        transaction.advance(1, Phase.TRIGGERED, Phase.VALIDATED, at(20))


def test_verdicts_are_read_back_in_their_order(store: CheckpointStore) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [BROKEN, GOOD])
        assert transaction.verdicts(1) == [BROKEN, GOOD]
    assert store.verdicts(PIPELINE, 1) == [BROKEN, GOOD]
    assert store.verdicts(PIPELINE, 2) == []


def test_recording_verdicts_replaces_those_before(store: CheckpointStore) -> None:
    acknowledged(store)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [BROKEN, GOOD])
    with store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [replace(GOOD, success=False, failed=1)])
    assert store.verdicts(PIPELINE, 1) == [replace(GOOD, success=False, failed=1)]
    with store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [])
    assert store.verdicts(PIPELINE, 1) == []


def test_a_checkpoint_is_accepted_with_its_verdicts_and_once(store: CheckpointStore) -> None:
    triggered(store)
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.accept(1, [GOOD], at(20))
        assert transaction.verdicts(1) == []
    acknowledged(store, checkpoint_id=1)
    with store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [BROKEN, GOOD])
        assert transaction.accept(1, [GOOD], at(21))
        assert transaction.verdicts(1) == [GOOD]
    kept = store.checkpoint(PIPELINE, 1)
    assert kept is not None
    assert (kept.phase, kept.validated_at) == (Phase.VALIDATED, at(21))
    with store.transaction(PIPELINE) as transaction:
        assert not transaction.accept(1, [], at(22))
        assert not transaction.accept(9, [GOOD], at(22))
        assert transaction.verdicts(1) == [GOOD]
    assert store.verdicts(PIPELINE, 1) == [GOOD]
    assert store.checkpoint(PIPELINE, 1) == kept


def test_a_judgement_that_failed_must_say_how(store: CheckpointStore) -> None:
    acknowledged(store)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [replace(BROKEN, error=None)])


def test_a_target_is_judged_once_by_a_suite(store: CheckpointStore) -> None:
    acknowledged(store)
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(1, [GOOD, GOOD])
    assert store.verdicts(PIPELINE, 1) == []


def test_verdicts_need_a_checkpoint(store: CheckpointStore) -> None:
    with pytest.raises(CheckpointError), store.transaction(PIPELINE) as transaction:
        transaction.record_verdicts(9, [GOOD])
