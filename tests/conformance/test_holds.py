"""A checkpoint whose data broke rules that hold: it waits for a person, and so does everything behind it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from desks import Desk
from memory_store import MemoryCheckpointStore
from records import at
from user_actions import DECISIONS, STOPS, approve, reject
from worlds import DEATHS, Crash, Judge, MortalStore

from tidegate.coordination.observing.history import History
from tidegate.coordination.steps.hold import Holds
from tidegate.ports import CheckpointStore, StoreTransaction
from tidegate.protocol.facts.errors import (
    CheckpointHeldError,
    CheckpointNotFoundError,
    CheckpointNotInProgressError,
    NotHeldError,
    RecordRefusedError,
    UnknownOutcomeError,
    ValidationFailedError,
)
from tidegate.protocol.facts.lifecycle import Phase, Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Decided, Decision
from tidegate.protocol.recovery.lost_database import Recovered
from tidegate.protocol.recovery.metadata import read_metadata
from tidegate.protocol.steps.trigger import Dropped, Queued, Resumed, Triggered

HOLD = 7200  # seconds; the timeout is 600


@pytest.fixture
def held(store: CheckpointStore) -> Desk:
    """Checkpoint 1 is complete and checkpoint 2 held, at second 100."""
    desk = Desk(store, hold_for="2 h")
    desk.ask("first")
    desk.complete(1)
    desk.ask("second")
    desk.acknowledge(2)
    desk.clock.advance(100)
    with pytest.raises(CheckpointHeldError):
        desk.coordinator.validate(2, Judge("held"))
    return desk


def test_the_verdict_and_the_hold_are_recorded_and_nothing_is_visible(held: Desk) -> None:
    record = held.record(2)
    assert (record.status, record.phase, record.validated_at) == (Status.IN_PROGRESS, Phase.HELD, None)
    assert (record.held_at, record.held_until, record.decision) == (at(100), at(100 + HOLD), None)
    assert record.held_message is not None
    assert record.held_message.startswith("sink:out: 1 of 1 expectations failed: expect_column_to_exist on k.")
    assert [verdict.success for verdict in held.store.verdicts("p", 2)] == [False]
    assert set(held.sink.visible) == {1}


def test_the_step_repeated_while_it_is_held_judges_nothing_again(held: Desk) -> None:
    judge, verdicts = Judge(True), held.store.verdicts("p", 2)
    for _ in range(2):
        with pytest.raises(CheckpointHeldError, match="tidegate approve p 2"):
            held.coordinator.validate(2, judge)
    assert (judge.asked, held.store.verdicts("p", 2)) == (0, verdicts)


def test_nothing_else_starts_and_the_request_resumes_the_held_one(held: Desk) -> None:
    assert isinstance(waiting := held.ask("third"), Queued)
    assert "`tidegate approve p 2`" in waiting.message
    assert isinstance(held.ask("by itself", wait=False), Dropped)
    assert isinstance(held.ask("a savepoint", savepoint=True), Queued)
    assert held.ask("second") == Resumed(2)


def test_an_approved_checkpoint_completes_and_says_who_had_decided_so(held: Desk) -> None:
    held.clock.advance(5000)
    record = approve(held.coordinator, 2, "ada", "the airport was closed")
    assert (record.phase, record.validated_at, record.status) == (Phase.VALIDATED, at(5100), Status.IN_PROGRESS)
    assert record.decided == Decided(Decision.APPROVED, at(5100), "ada", "the airport was closed")
    held.coordinator.validate(2, judge := Judge(False))
    held.coordinator.finalize(2)
    held.coordinator.notify(2)
    assert judge.asked == 0
    assert set(held.sink.visible) == {1, 2}
    assert held.record(2).decided == record.decided
    written = held.storage.files["p/chk-2/_metadata"]
    assert b'"decided_by": "ada"' in written
    assert b'"decision": "APPROVED"' in written


def test_an_approved_checkpoint_has_time_to_complete_before_it_is_given_up(held: Desk) -> None:
    held.clock.advance(HOLD - 1)
    approve(held.coordinator, 2, "ada")
    held.clock.advance(599)
    assert isinstance(held.ask("third"), Queued)
    assert held.ask("second") == Resumed(2)
    held.clock.advance(1)
    assert held.ask("third") == Triggered(3)
    assert held.record(2).failure_reason is FailureReason.CHECKPOINT_EXPIRED
    assert held.record(2).decision is Decision.APPROVED


def test_a_rejected_checkpoint_is_aborted_and_the_next_one_begins(held: Desk) -> None:
    assert isinstance(held.ask("third"), Queued)
    record = reject(held.coordinator, 2, "grace", "a typing error")
    assert (record.status, record.phase) == (Status.FAILED, Phase.HELD)
    assert record.failure_reason is FailureReason.VALIDATION_REJECTED
    assert record.failure_message is not None
    assert record.failure_message.startswith(
        "grace rejected checkpoint 2 of pipeline p: a typing error (sink:out: 1 of"
    )
    with pytest.raises(CheckpointNotInProgressError, match="VALIDATION_REJECTED"):
        held.coordinator.validate(2, Judge(True))
    assert held.ask("third") == Triggered(3)
    assert set(held.sink.visible) == {1}


def test_a_decision_needs_no_definition_of_the_pipeline(held: Desk) -> None:
    holds = Holds(held.coordinator.context)
    with pytest.raises(CheckpointNotFoundError):
        holds.approve(9, "ada")
    assert holds.approve(None, "ada").checkpoint_id == 2
    with pytest.raises(NotHeldError, match="No checkpoint of pipeline p waits"):
        holds.approve(None, "ada")


@pytest.mark.parametrize("first", ["approve", "reject"])
def test_the_first_decision_stands_and_its_repetition_gives_the_same_answer(held: Desk, first: str) -> None:
    coordinator = held.coordinator
    other = {"approve": "reject", "reject": "approve"}[first]
    answer = DECISIONS[first](coordinator, 2, "ada", "it is right")
    held.clock.advance(60)
    assert DECISIONS[first](coordinator, 2, "grace", "again") == answer
    with pytest.raises(NotHeldError, match=r"ed by ada at 2026-01-01 12:01:40 UTC \(it is right\)"):
        DECISIONS[other](coordinator, 2, "grace")
    assert held.record(2) == answer


@pytest.mark.parametrize("who", ["validate", "acknowledge", "ask"])
def test_at_the_end_of_its_hold_it_is_aborted_by_whoever_looks(held: Desk, who: str) -> None:
    looks: dict[str, Callable[[], object]] = {
        "validate": lambda: held.coordinator.validate(2, Judge(True)),
        "acknowledge": lambda: held.coordinator.acknowledge(2),
        "ask": lambda: held.ask("third"),
    }
    held.clock.advance(HOLD - 1)
    if who == "validate":
        with pytest.raises(CheckpointHeldError):
            looks[who]()
    else:
        looks[who]()
    assert held.record(2).phase is Phase.HELD, "long past the timeout, and not expired"
    held.clock.advance(1)
    with pytest.raises(NotHeldError, match="that has passed"):
        approve(held.coordinator, 2, "ada")
    if who == "ask":
        assert looks[who]() == Triggered(3)
    else:
        with pytest.raises(CheckpointNotInProgressError, match=r"HOLD_EXPIRED.*was not approved by"):
            looks[who]()
    assert (held.record(2).failure_reason, held.record(2).phase) == (FailureReason.HOLD_EXPIRED, Phase.HELD)
    with pytest.raises(NotHeldError, match="HOLD_EXPIRED"):
        approve(held.coordinator, 2, "ada")


@pytest.mark.parametrize("verdict", [False, None, "missing"])
def test_a_judgement_of_which_nobody_can_say_what_failed_aborts(store: CheckpointStore, verdict: object) -> None:
    desk = Desk(store, hold_for="2 h")
    desk.ask("first")
    desk.acknowledge(1)
    with pytest.raises(ValidationFailedError):
        desk.coordinator.validate(1, Judge(verdict))  # type: ignore[arg-type]
    assert desk.record(1).failure_reason is FailureReason.VALIDATION_FAILED


def test_a_rule_that_says_nothing_aborts(store: CheckpointStore) -> None:
    desk = Desk(store)
    desk.ask("first")
    desk.acknowledge(1)
    with pytest.raises(ValidationFailedError):
        desk.coordinator.validate(1, Judge("held"))
    assert desk.record(1).failure_reason is FailureReason.VALIDATION_FAILED


def test_a_held_checkpoint_cannot_be_finalized_and_stays_held(held: Desk) -> None:
    with pytest.raises(ValidationFailedError, match="held, and was not approved yet"):
        held.coordinator.finalize(2)
    assert held.record(2).phase is Phase.HELD


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("suspend", FailureReason.COORDINATOR_SUSPEND),
        ("cancel", FailureReason.COORDINATOR_SHUTDOWN),
        ("abort", FailureReason.TASK_FAILURE),
        ("stop", FailureReason.COORDINATOR_SUSPEND),
    ],
)
def test_what_ends_any_checkpoint_ends_a_held_one(held: Desk, end: str, reason: FailureReason) -> None:
    match end:
        case "abort":
            held.coordinator.abort(2, FailureReason.TASK_FAILURE, "gone")
        case "stop":
            held.stop("stop")
        case _:
            STOPS[end](held.coordinator)
    assert (held.record(2).status, held.record(2).failure_reason) == (Status.FAILED, reason)
    with pytest.raises(NotHeldError, match=reason.name):
        approve(held.coordinator, 2, "ada")


def test_a_savepoint_to_stop_with_may_be_held_and_its_rejection_lets_the_pipeline_run(store: CheckpointStore) -> None:
    desk = Desk(store, hold_for="2 h")
    for number, decision in ((1, "reject"), (2, "approve")):
        desk.stop(f"stop-{number}")
        desk.acknowledge(number)
        with pytest.raises(CheckpointHeldError):
            desk.coordinator.validate(number, Judge("held"))
        DECISIONS[decision](desk.coordinator, number, "ada")
        if decision == "reject":
            assert store.pipeline("p").status is PipelineStatus.RUNNING  # type: ignore[union-attr]
    desk.coordinator.finalize(2)
    desk.coordinator.notify(2)
    assert store.pipeline("p").status is PipelineStatus.FINISHED  # type: ignore[union-attr]


def test_a_rejection_counts_as_no_failure_and_an_expired_hold_as_a_failed_validation(store: CheckpointStore) -> None:
    desk = Desk(store, hold_for="2 h", tolerable_failed_checkpoints=0)
    for number in (1, 2):
        desk.ask(f"r{number}")
        desk.acknowledge(number)
        with pytest.raises(CheckpointHeldError):
            desk.coordinator.validate(number, Judge("held"))
        if number == 1:
            reject(desk.coordinator, 1, "ada")
            assert store.pipeline("p").status is PipelineStatus.RUNNING  # type: ignore[union-attr]
    desk.clock.advance(HOLD)
    with pytest.raises(CheckpointNotInProgressError):
        desk.coordinator.acknowledge(2)
    assert store.pipeline("p").status is PipelineStatus.FAILED  # type: ignore[union-attr]


@pytest.mark.parametrize("how", DEATHS)
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_decision_cut_short_is_whole_or_was_not_made(held: Desk, decision: str, how: str) -> None:
    mortal = MortalStore(held.store)
    mortal.plan = (0, how)
    with pytest.raises((Crash, UnknownOutcomeError)):
        getattr(Holds(replace(held.coordinator.context, store=mortal)), decision)(2, "ada")
    was_made = "after" in how
    assert (held.record(2).decision is not None) == was_made
    assert DECISIONS[decision](held.coordinator, 2, "grace").decided_by == ("ada" if was_made else "grace")


@pytest.mark.parametrize("how", DEATHS)
def test_a_hold_cut_short_is_recorded_with_its_verdicts_or_not_at_all(store: CheckpointStore, how: str) -> None:
    desk = Desk(store, hold_for="2 h")
    desk.ask("first")
    desk.acknowledge(1)
    mortal = MortalStore(store)
    desk.reopen(mortal)  # type: ignore[arg-type]
    mortal.plan = (1, how)
    with pytest.raises((Crash, UnknownOutcomeError)):
        desk.coordinator.validate(1, Judge("held"))
    assert (desk.record(1).phase is Phase.HELD) == ("after" in how) == bool(store.verdicts("p", 1))
    with pytest.raises(CheckpointHeldError):
        desk.coordinator.validate(1, Judge("held"))


def test_the_store_moves_no_checkpoint_past_a_hold_without_a_decision(held: Desk) -> None:
    store = held.store
    for before, after in ((Phase.HELD, Phase.VALIDATED), (Phase.ACKNOWLEDGED, Phase.HELD)):
        with pytest.raises(ValueError, match="a hold"), store.transaction("p") as tx:
            tx.advance(2, before, after, at(9))
    with store.transaction("p") as tx:
        assert not tx.complete(2, at(9), "p/chk-2/_metadata", 1, 1)
        assert not tx.hold(2, at(900), "again", at(200))
        assert not tx.decide(1, Decided(Decision.APPROVED, at(200), "ada"), at(900))
    decided = Decided(Decision.REJECTED, at(200), "ada")
    _refused(store, lambda tx: tx.decide(2, replace(decided, at=at(100 + HOLD)), at(9000)))
    _refused(store, lambda tx: tx.decide(2, replace(decided, by=""), at(9000)))
    _refused(store, lambda tx: tx.fail(2, FailureReason.VALIDATION_REJECTED, "nobody has", at(200)))
    _refused(
        store,
        lambda tx: tx.decide(2, decided, at(9000)) and tx.fail(2, FailureReason.TASK_FAILURE, "why not", at(200)),
    )


def _refused(store: CheckpointStore, write: Callable[[StoreTransaction], object]) -> None:
    with pytest.raises(RecordRefusedError), store.transaction("p") as tx:
        write(tx)


def test_when_the_database_is_lost_it_is_known_again_who_had_approved_it(store: CheckpointStore) -> None:
    desk = Desk(MemoryCheckpointStore(), hold_for="2 h")
    desk.ask("first")
    desk.acknowledge(1)
    with pytest.raises(CheckpointHeldError):
        desk.coordinator.validate(1, Judge("held"))
    desk.clock.advance(HOLD - 1)
    approve(desk.coordinator, 1, "ada", "it is right")
    desk.coordinator.finalize(1)
    before = desk.record(1)
    metadata = read_metadata("p", 1, desk.storage.files["p/chk-1/_metadata"])
    with store.transaction("p") as tx:
        History(tx, desk.clock.now()).record(Recovered(metadata, None, False))
    assert store.checkpoint("p", 1) == before
    assert store.verdicts("p", 1) == desk.store.verdicts("p", 1)
