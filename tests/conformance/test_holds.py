"""A checkpoint whose data broke rules that hold: it waits for a person, and so does everything behind it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from desks import Desk
from live_pipelines import Live
from made_gestures import DECISIONS, STOPS, approve, reject
from memory_store import MemoryCheckpointStore
from records import at
from worlds import DEATHS, Crash, Judge, MortalStore

from tidegate.coordination.history import History
from tidegate.coordination.hold import Holds
from tidegate.ports import CheckpointStore, StoreTransaction
from tidegate.protocol.errors import (
    CheckpointHeldError,
    CheckpointNotFoundError,
    CheckpointNotInProgressError,
    NotHeldError,
    RecordRefusedError,
    StorageError,
    UnknownOutcomeError,
    ValidationFailedError,
)
from tidegate.protocol.lifecycle import COMMITTED, Phase, Status
from tidegate.protocol.metadata import read_metadata
from tidegate.protocol.pipelines import PipelineStatus
from tidegate.protocol.reasons import FailureReason
from tidegate.protocol.records import CheckpointRecord, Decided, Decision
from tidegate.protocol.recovered import Recovered
from tidegate.protocol.trigger import Dropped, Queued, Resumed, Triggered

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


def found(desk: Desk, checkpoint_id: int = 2) -> CheckpointRecord:
    record = desk.store.checkpoint("p", checkpoint_id)
    assert record is not None
    return record


def test_the_verdict_and_the_hold_are_recorded_and_nothing_is_visible(held: Desk) -> None:
    record = found(held)
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
    assert found(held).decided == record.decided
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
    assert found(held).failure_reason is FailureReason.CHECKPOINT_EXPIRED
    assert found(held).decision is Decision.APPROVED


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
    holds = Holds("p", held.store, held.clock)
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
    assert found(held) == answer


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
    assert found(held).phase is Phase.HELD, "long past the timeout, and not expired"
    held.clock.advance(1)
    with pytest.raises(NotHeldError, match="that has passed"):
        approve(held.coordinator, 2, "ada")
    if who == "ask":
        assert looks[who]() == Triggered(3)
    else:
        with pytest.raises(CheckpointNotInProgressError, match=r"HOLD_EXPIRED.*nobody approved it by"):
            looks[who]()
    assert (found(held).failure_reason, found(held).phase) == (FailureReason.HOLD_EXPIRED, Phase.HELD)
    with pytest.raises(NotHeldError, match="HOLD_EXPIRED"):
        approve(held.coordinator, 2, "ada")


@pytest.mark.parametrize("verdict", [False, None, "missing"])
def test_a_judgement_of_which_nobody_can_say_what_failed_aborts(store: CheckpointStore, verdict: object) -> None:
    desk = Desk(store, hold_for="2 h")
    desk.ask("first")
    desk.acknowledge(1)
    with pytest.raises(ValidationFailedError):
        desk.coordinator.validate(1, Judge(verdict))  # type: ignore[arg-type]
    assert found(desk, 1).failure_reason is FailureReason.VALIDATION_FAILED


def test_a_rule_that_says_nothing_aborts(store: CheckpointStore) -> None:
    desk = Desk(store)
    desk.ask("first")
    desk.acknowledge(1)
    with pytest.raises(ValidationFailedError):
        desk.coordinator.validate(1, Judge("held"))
    assert found(desk, 1).failure_reason is FailureReason.VALIDATION_FAILED


def test_a_held_checkpoint_cannot_be_finalized_and_stays_held(held: Desk) -> None:
    with pytest.raises(ValidationFailedError, match="held, and nobody has approved it"):
        held.coordinator.finalize(2)
    assert found(held).phase is Phase.HELD


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
    assert (found(held).status, found(held).failure_reason) == (Status.FAILED, reason)
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
        getattr(Holds("p", mortal, held.clock), decision)(2, "ada")  # type: ignore[arg-type]
    was_made = "after" in how
    assert (found(held).decision is not None) == was_made
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
    assert (found(desk, 1).phase is Phase.HELD) == ("after" in how) == bool(store.verdicts("p", 1))
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


def _refused(store: CheckpointStore, deed: Callable[[StoreTransaction], object]) -> None:
    with pytest.raises(RecordRefusedError), store.transaction("p") as tx:
        deed(tx)


def test_when_the_database_is_lost_it_is_known_again_who_had_approved_it(store: CheckpointStore) -> None:
    desk = Desk(MemoryCheckpointStore(), hold_for="2 h")
    desk.ask("first")
    desk.acknowledge(1)
    with pytest.raises(CheckpointHeldError):
        desk.coordinator.validate(1, Judge("held"))
    desk.clock.advance(HOLD - 1)
    approve(desk.coordinator, 1, "ada", "it is right")
    desk.coordinator.finalize(1)
    before = found(desk, 1)
    metadata = read_metadata("p", 1, desk.storage.files["p/chk-1/_metadata"])
    with store.transaction("p") as tx:
        History(tx, desk.clock.now()).record(Recovered(metadata, None, False))
    assert store.checkpoint("p", 1) == before
    assert store.verdicts("p", 1) == desk.store.verdicts("p", 1)


# -- in a continuous run


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
    assert found(pipeline.world, 1).phase is Phase.HELD
    assert pipeline.judge.asked == 1
    assert pipeline.regions[0].read > 40


def test_an_approved_checkpoint_of_a_continuous_run_completes_and_others_follow(live: Callable[..., Live]) -> None:
    pipeline = held_live(live, s50=approve_live)
    assert [id_ for id_, _, _ in pipeline.history()] == [1, 2]
    assert all(found(pipeline.world, id_).status in COMMITTED for id_ in (1, 2))
    assert found(pipeline.world, 1).decided_by == "ada"
    pipeline.check()


def test_a_rejected_checkpoint_of_a_continuous_run_is_aborted_and_its_rows_come_again(
    live: Callable[..., Live],
) -> None:
    def reject(pipeline: Live) -> None:
        pipeline.judge.verdict = True
        reject(pipeline.world.coordinator, None, "ada")

    pipeline = held_live(live, s30=reject)
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
    assert found(pipeline.world, 1).phase is Phase.HELD
    approve_live(pipeline)
    pipeline.run(100)
    assert found(pipeline.world, 1).status in COMMITTED
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
