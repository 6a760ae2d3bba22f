"""User actions that need the definition and take several steps are recorded with their effect, or not at all."""

from dataclasses import replace

import pytest
from forks import SAVEPOINT, New
from records import SOMEBODY
from savepoint_directories import AT, past_of
from user_actions import resume, suspend
from worlds import Crash, MemorySink, small_pipeline

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.operations import ABORT_REASON
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.protocol.facts.errors import (
    ActionRepeatedError,
    ForkRefusedError,
    IllegalRequestError,
    NothingToUndoError,
    PipelineIdentityError,
    RestoreRefusedError,
)
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.observing.actions import ActionKind, AnswerStatus, UserAction
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.testing.effects import Effects, MortalTransactions


class MovedSink(MemorySink):
    def describe(self):
        return {**super().describe(), "path": "/moved"}


def action(kind, id_="id", **details):
    return UserAction(id_, kind, SOMEBODY, details)


def audited(world, pipeline_id="p"):
    return [(each.action.kind, each.answer.status) for each in world.store.audit(pipeline_id, 99)]


@pytest.fixture
def world(desk):
    """With checkpoints 1 to 3 behind it."""
    made = desk(retained=9)
    for number in (1, 2, 3):
        made.ask(f"r{number}")
        made.complete(number)
    return made


def dying(world, at, before, act):
    """What is left when the process dies before or after a commit; whether it did."""
    effects = Effects()
    effects.die(at, before)
    store = world.store
    world.reopen(MortalTransactions(store, effects))
    try:
        act(world.coordinator)
    except Crash:
        return True
    finally:
        world.reopen(store)
    return False


def restores(world):
    with world.store.transaction("p") as tx:
        return tx.restores()


@pytest.mark.parametrize("before", [True, False])
def test_a_restore_is_on_record_if_it_is_recorded(world, before):
    at = 0

    def restore(coordinator):
        coordinator.restore(ToCheckpoint(1), action=action(ActionKind.RESTORE, f"id-{at}"))

    while dying(world, at, before, restore):
        assert len(audited(world)) == len(restores(world))
        at += 1
    assert at > 5
    assert set(audited(world)) == {(ActionKind.RESTORE, AnswerStatus.DONE)}
    assert 1 < len(audited(world)) == len(restores(world)) < at


def test_a_restore_that_is_asked_for_again_goes_back_once(world):
    asked = action(ActionKind.RESTORE, to=1)
    world.coordinator.restore(ToCheckpoint(1), action=asked)
    world.ask("r4")
    world.complete(4)
    with pytest.raises(ActionRepeatedError, match="restored to checkpoint 1"):
        world.coordinator.restore(ToCheckpoint(1), action=asked)
    assert world.store.checkpoint("p", 4).abandoned_by is None
    [known] = world.store.audit("p", 9)
    assert world.coordinator.auditing.answer_to(asked) == known.answer
    assert known.answer.checkpoint_id == 1
    world.coordinator.restore(Undo(), action=action(ActionKind.UNDO, "two"))
    assert [each.action.kind for each in world.store.audit("p", 9)] == [ActionKind.UNDO, ActionKind.RESTORE]


def test_a_restore_that_is_refused_is_on_record_with_the_refusal(world):
    with pytest.raises(NothingToUndoError) as caught:
        world.coordinator.restore(Undo(), action=action(ActionKind.UNDO))
    planned = world.coordinator.plan_restore(ToCheckpoint(1))
    world.ask("r4")
    world.complete(4)
    with pytest.raises(RestoreRefusedError, match="has changed to 4"):
        world.coordinator.restore(ToCheckpoint(1), planned=planned, action=action(ActionKind.RESTORE, "two"))
    assert audited(world) == [
        (ActionKind.RESTORE, AnswerStatus.REFUSED),
        (ActionKind.UNDO, AnswerStatus.REFUSED),
    ]
    assert world.store.audit("p", 9)[-1].answer.sentence == str(caught.value)
    assert restores(world) == []


def test_what_a_program_does_leaves_no_record(world):
    suspend(world.coordinator)
    resume(world.coordinator)
    world.coordinator.restore(ToCheckpoint(1))
    world.coordinator.cleaning.clean()
    world.coordinator.cancel()
    assert audited(world) == []


@pytest.mark.parametrize("before", [True, False])
def test_a_request_is_on_record_with_its_first_answer(world, before):
    asked, at = action(ActionKind.SAVEPOINT), 0

    def ask(coordinator):
        return coordinator.trigger("s4", kind=CheckpointKind.SAVEPOINT, action=asked)

    while dying(world, at, before, ask):
        assert len(audited(world)) == (world.store.checkpoint("p", 4) is not None)
        at += 1
    assert at >= 1
    world.complete(4)
    ask(world.coordinator)
    [known] = world.store.audit("p", 9)
    assert known.answer.checkpoint_id == 4
    assert "is triggered" in known.answer.sentence or "goes on" in known.answer.sentence


def test_requests_that_wait_or_are_dropped_or_illegal_are_on_record_once(world):
    def ask(id_, request, **options):
        return world.coordinator.trigger(request, action=action(ActionKind.CHECKPOINT, id_), **options)

    world.ask("r4")
    for _ in range(3):
        ask("waits", "r5", wait=True)
    ask("dropped", "r6")
    with pytest.raises(IllegalRequestError):
        ask("illegal", "r7", drain=True)
    world.coordinator.abort_request("r4", ABORT_REASON, "by hand")
    ask("waits", "r5", wait=True)
    assert [(each.action.request_id, each.answer.status) for each in world.store.audit("p", 9)] == [
        ("illegal", AnswerStatus.REFUSED),
        ("dropped", AnswerStatus.REFUSED),
        ("waits", AnswerStatus.DONE),
    ]
    assert world.store.history("p", 1)[0].request_id == "r5"


def test_cancelling_and_relocating_with_the_definition(world):
    suspend(world.coordinator)
    moved = CheckpointCoordinator(small_pipeline(MovedSink()), world.store, world.storage, world.clock)
    with pytest.raises(PipelineIdentityError):
        moved.cancel(action(ActionKind.CANCEL, "one"))
    assert len(moved.relocate(action(ActionKind.RELOCATE, "two"))) == 1
    moved.cancel(action(ActionKind.CANCEL, "three"))
    assert audited(world) == [
        (ActionKind.CANCEL, AnswerStatus.DONE),
        (ActionKind.RELOCATE, AnswerStatus.DONE),
        (ActionKind.CANCEL, AnswerStatus.REFUSED),
    ]
    assert "/moved" in world.store.audit("p", 9)[1].answer.sentence


def test_cleaning_is_on_record_and_refused_while_something_is_damaged(world):
    for _ in range(2):
        world.coordinator.cleaning.clean(action(ActionKind.CLEAN, "one"))
    world.coordinator.cleaning.plan()
    [path] = [path for path in world.storage.files if path.startswith("p/chk-3/") and path.endswith("_metadata")]
    world.storage.files[path] += b" "
    assert world.coordinator.cleaning.clean(action(ActionKind.CLEAN, "two")).damage
    assert audited(world) == [(ActionKind.CLEAN, AnswerStatus.REFUSED), (ActionKind.CLEAN, AnswerStatus.DONE)]
    assert path in world.store.audit("p", 1)[0].answer.sentence


def test_a_cleaning_that_dies_is_on_record_with_its_plan(world):
    world.storage.files["p/chk-3/left"] = b"nobody refers to it"

    def die(*_):
        raise Crash

    world.storage.delete = die
    with pytest.raises(Crash):
        world.coordinator.cleaning.clean(action(ActionKind.CLEAN))
    (record,) = [each for each in world.store.audit("p", 9) if each.action.kind is ActionKind.CLEAN]
    assert (record.answer.status, "To be deleted" in record.answer.sentence) == (AnswerStatus.DONE, True)


def test_a_recovery_is_on_record_in_the_new_database(lost):
    _, lose = lost
    world = lose()
    plan = world.recovering.plan()
    world.recovering.recover(plan, action=action(ActionKind.RECOVER))
    assert audited(world) == [(ActionKind.RECOVER, AnswerStatus.DONE)]
    assert "recovered to checkpoint 4" in world.store.audit("p", 9)[0].answer.sentence


@pytest.fixture
def exported(store):
    """Checkpoint 1, savepoint 2, also in its directory, and checkpoints 3 and 4 after it."""
    return past_of(store)


def test_an_export_and_a_restore_from_it(exported):
    coordinator = exported.coordinator
    coordinator.exporting.begin("kept", AT, action(ActionKind.EXPORT, "one"))
    with pytest.raises(IllegalRequestError):
        coordinator.exporting.begin("kept", "memory://x:geheim@other", action(ActionKind.EXPORT, "two"))
    coordinator.restore_from(AT, action=action(ActionKind.RESTORE, "three"))
    assert audited(exported) == [
        (ActionKind.RESTORE, AnswerStatus.DONE),
        (ActionKind.EXPORT, AnswerStatus.REFUSED),
        (ActionKind.EXPORT, AnswerStatus.DONE),
    ]


def test_a_fork_is_on_record_with_the_new_pipeline(exported):
    new = New(exported)
    planned = new.plan(SAVEPOINT)
    strange = replace(planned, plan=replace(planned.plan, moved=("somewhere",)))
    with pytest.raises(ForkRefusedError):
        new.coordinator.fork(strange, Accepted(), action(ActionKind.FORK, "one"))
    new.coordinator.fork(planned, Accepted(), action(ActionKind.FORK, "two"))
    assert audited(new, "q")[0] == (ActionKind.FORK, AnswerStatus.DONE)
    assert audited(new, "p") == []


def test_it_is_read_newest_first_page_by_page_of_one_pipeline_or_all(world):
    for number in range(5):
        world.coordinator.operations.suspend(f"id-{number}", SOMEBODY)
    with world.store.transaction("other") as tx:
        answer = world.store.audit("p", 1)[0].answer
        tx.record_action(action(ActionKind.SUSPEND, "id-0"), answer, world.clock.now())
    newest = world.store.audit("p", 2)
    assert [each.action.request_id for each in newest] == ["id-4", "id-3"]
    older = world.store.audit("p", 9, before=newest[-1].number)
    assert [each.action.request_id for each in older] == ["id-2", "id-1", "id-0"]
    everything = world.store.audit(None, 99)
    assert [each.pipeline_id for each in everything] == ["other", *["p"] * 5]
    assert world.store.checkpoint("p", 3).status is Status.COMPLETED
