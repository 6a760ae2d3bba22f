"""User actions without a definition: what they do, what they answer, and that they are done once: on every store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from desks import Desk
from live_pipelines import Live, shown
from records import SOMEBODY
from user_actions import suspend
from worlds import Crash, Judge

from tidegate.coordination.context import PipelineContext
from tidegate.coordination.operations import PipelineOperations
from tidegate.pipeline.config import CheckpointRetention
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.errors import ActionRefusedError, CheckpointCompletedError, StoreUnavailableError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import ActionAnswer, ActionKind, Actor, ActorKind, AnswerStatus
from tidegate.testing.effects import Effects, MortalTransactions

DONE, REFUSED = AnswerStatus.DONE, AnswerStatus.REFUSED
SAVEPOINT, STOP = CheckpointKind.SAVEPOINT, CheckpointKind.SYNC_SAVEPOINT
OTHER = Actor(ActorKind.AIRFLOW_USER, "bob", "10.0.0.8")


def operations(desk: Desk, store: CheckpointStore | None = None) -> PipelineOperations:
    """As in a process that has no definition."""
    return PipelineOperations(PipelineContext("p", store or desk.store, desk.storage, desk.clock))


@pytest.fixture
def world(desk: Callable[..., Desk]) -> Desk:
    """With two savepoints behind it, and checkpoint 3."""
    made = desk(retained=1, retention=CheckpointRetention.RETAIN_ON_CANCELLATION)
    for number, name in ((1, "one"), (2, "two")):
        made.coordinator.trigger(f"r{number}", kind=SAVEPOINT, label=Label(name))
        made.complete(number)
    made.ask("r3")
    made.complete(3)
    return made


def status(world: Desk) -> PipelineStatus:
    pipeline = world.store.pipeline("p")
    assert pipeline is not None
    return pipeline.status


def record(world: Desk, checkpoint_id: int):
    found = world.store.checkpoint("p", checkpoint_id)
    assert found is not None
    return found


#: What each action does to the world of four checkpoints, of which the last is in progress; and how one sees it.
ACTIONS = {
    "suspend": (lambda o, id_: o.suspend(id_, SOMEBODY), lambda w: status(w), PipelineStatus.SUSPENDED),
    "cancel": (lambda o, id_: o.cancel(id_, SOMEBODY), lambda w: status(w), PipelineStatus.CANCELLED),
    "abort": (lambda o, id_: o.abort(id_, SOMEBODY, 4), lambda w: record(w, 4).status, Status.FAILED),
    "rename": (lambda o, id_: o.rename(id_, SOMEBODY, "one", Label("1st")), lambda w: record(w, 1).name, "1st"),
    "dispose": (lambda o, id_: o.dispose(id_, SOMEBODY, "one"), lambda w: record(w, 1).status, Status.SUBSUMED),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_an_action_is_done_once_and_answered_always(world: Desk, name: str) -> None:
    act, look, expected = ACTIONS[name]
    world.ask("r4")
    first = act(operations(world), "id-1")
    assert (first.status, look(world)) == (DONE, expected), first
    before = world.store.history("p", 9)
    assert act(operations(world), "id-1") == first
    assert world.store.history("p", 9) == before
    [known] = world.store.audit("p", 9)
    assert (known.action.kind, known.action.request_id) == (ActionKind[name.upper()], "id-1")
    assert (known.action.actor, known.answer, known.pipeline_id) == (SOMEBODY, first, "p")


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("at", range(3))
def test_a_process_that_dies_at_a_commit_leaves_the_change_and_its_record_or_neither(
    world: Desk, name: str, before: bool, at: int
) -> None:
    act, look, expected = ACTIONS[name]
    world.ask("r4")
    effects = Effects()
    effects.die(at, before)
    try:
        act(operations(world, MortalTransactions(world.store, effects)), "id-1")
    except Crash:
        pass
    else:
        assert effects.count <= at, "it did not die"
    assert len(world.store.audit("p", 9)) == (look(world) == expected)
    assert act(operations(world), "id-1").status is DONE
    assert look(world) == expected
    assert len(world.store.audit("p", 9)) == 1


@pytest.mark.parametrize("name", ACTIONS)
def test_two_at_once_with_one_id_act_once_and_get_one_answer(world: Desk, name: str) -> None:
    act, look, expected = ACTIONS[name]
    world.ask("r4")
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: act(operations(world), "id-1"), range(8)))
    assert [answer.status for answer in answers] == [DONE] * 8
    assert len({answer.sentence for answer in answers}) == 1
    assert (look(world), len(world.store.audit("p", 9))) == (expected, 1)


def test_what_is_refused_changes_nothing_and_is_on_record(world: Desk) -> None:
    before = world.store.history("p", 9), status(world)
    refused = {
        "a": operations(world).abort("a", SOMEBODY, 3),
        "b": operations(world).abort("b", SOMEBODY, 99),
        "c": operations(world).abort("c", SOMEBODY, 2**70),
        "d": operations(world).dispose("d", SOMEBODY, "nine"),
        "e": operations(world).rename("e", SOMEBODY, "one", Label("two")),
        "f": operations(world).rename("f", SOMEBODY, "one", Label("x\0y")),
        "g": operations(world).request("g", SOMEBODY),
        "h": operations(world).request("h", SOMEBODY, drain=True),
    }
    assert {answer.status for answer in refused.values()} == {REFUSED}
    assert (world.store.history("p", 9), status(world)) == before
    assert {each.action.request_id: each.answer for each in world.store.audit("p", 99)} == refused
    with pytest.raises(CheckpointCompletedError, match="can no longer be aborted"):
        refused["a"].require_done()
    assert "has no continuous region" in refused["g"].sentence
    again = operations(world).abort("a", SOMEBODY, 3)
    assert again == refused["a"]
    with pytest.raises(ActionRefusedError, match=r"refused before: Checkpoint 3"):
        again.require_done()


def test_a_refusal_stands_for_its_id_and_not_for_another(world: Desk) -> None:
    suspend(world.coordinator)
    world.coordinator.cancel()
    refused = operations(world).suspend("one", SOMEBODY)
    assert (refused.status, "CANCELLED" in refused.sentence) == (REFUSED, True)
    world.coordinator.restore(_to(3))
    assert operations(world).suspend("one", SOMEBODY) == refused
    assert operations(world).suspend("two", SOMEBODY).status is DONE


def _to(checkpoint_id: int):
    from tidegate.coordination.recovery.restore import ToCheckpoint

    return ToCheckpoint(checkpoint_id)


def test_an_id_is_of_one_action(world: Desk) -> None:
    operations(world).suspend("id", SOMEBODY)
    other = operations(world).resume("id", OTHER)
    assert (other.status, "is of another request: SUSPEND" in other.sentence) == (REFUSED, True)
    assert status(world) is PipelineStatus.SUSPENDED
    assert operations(world).abort("abort", SOMEBODY, 9).status is REFUSED
    assert "another request" in operations(world).abort("abort", SOMEBODY, 8).sentence
    assert operations(world).suspend("id", OTHER).status is DONE, "who repeats it does not matter"
    assert [each.action.request_id for each in world.store.audit("p", 9)] == ["abort", "id"]


@pytest.mark.parametrize("id_", ["", "a\nb", "\0", "x" * 501, "\ud800", "a" * 10_000_000], ids=range(6))
def test_an_id_that_cannot_be_recorded_is_refused_and_leaves_no_trace(world: Desk, id_: str) -> None:
    answer = operations(world).suspend(id_, SOMEBODY)
    assert (answer.status, "cannot name a request" in answer.sentence) == (REFUSED, True)
    assert len(answer.sentence) < 1000
    assert (status(world), world.store.audit("p", 9)) == (PipelineStatus.RUNNING, [])


@pytest.mark.parametrize(
    "text", ["\0", "\x1b[2J", "\ud800", "x" * 10_000_000, "<script>", "'; DROP TABLE audit"], ids=range(6)
)
def test_texts_from_people_are_harmless(world: Desk, text: str) -> None:
    actor = Actor(ActorKind.AIRFLOW_USER, text, text)
    assert operations(world).dispose("a", actor, text).status is REFUSED
    assert operations(world).rename("b", actor, "one", Label(None, text)).status in AnswerStatus
    for known in world.store.audit("p", 9):
        assert max(len(known.action.actor.name), len(known.action.actor.origin)) <= 300
        assert len(known.answer.sentence) < 11_000
        assert len(str(known.action.details)) < 31_000
    assert len(world.store.audit("p", 9)) == 2


def test_no_secret_is_recorded(world: Desk) -> None:
    actor = Actor(ActorKind.CLI_USER, "amy", "https://amy:geheim@host/x")
    url = "s3://KEY:geheim@bucket/x?secret_key=geheim"
    operations(world).dispose("a", actor, url)
    [known] = world.store.audit("p", 9)
    assert "geheim" not in repr(known)
    assert "s3://***@bucket/x?secret_key=***" in known.answer.sentence


def test_cancelling_without_the_definition_keeps_or_deletes_as_the_latest_checkpoint_says(
    desk: Callable[..., Desk],
) -> None:
    world = desk()
    world.ask("r1")
    world.complete(1)
    assert operations(world).cancel("id", SOMEBODY).status is DONE
    assert record(world, 1).status is Status.SUBSUMED
    operations(world).delete_queued()
    assert record(world, 1).status is Status.DISCARDED


def test_cancelling_keeps_what_is_retained_and_waits_for_sinks_that_have_not_committed(world: Desk) -> None:
    world.ask("r4")
    world.acknowledge(4)
    world.coordinator.validate(4, Judge(True))
    world.coordinator.finalize(4)
    refused = operations(world).cancel("a", SOMEBODY)
    assert (refused.status, "sinks have not finished checkpoint 4" in refused.sentence) == (REFUSED, True)
    assert status(world) is PipelineStatus.RUNNING
    world.coordinator.notify(4)
    assert operations(world).cancel("b", SOMEBODY).status is DONE
    assert record(world, 4).status is Status.COMPLETED


def test_a_store_that_is_away_gives_no_answer(world: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise StoreUnavailableError("the database is away")

    monkeypatch.setattr(world.store, "transaction", away)
    with pytest.raises(StoreUnavailableError):
        operations(world).suspend("id", SOMEBODY)
    monkeypatch.undo()
    assert operations(world).suspend("id", SOMEBODY).status is DONE


# -- what a continuous region takes


def handing(one: Live, id_: str, kind: CheckpointKind = SAVEPOINT, **more: object) -> ActionAnswer:
    return operations(one.world).request(id_, SOMEBODY, kind, **more)


def test_a_region_takes_what_is_requested_of_it(live: Callable[..., Live]) -> None:
    one, answers = live(), []
    one.at(3, lambda: answers.append(handing(one, "id", label=Label("mine", "a note"))))
    one.at(9, lambda: answers.append(handing(one, "id", label=Label("mine", "a note"))))
    one.run(until=12)
    assert one.history() == [(1, "asked:id", "COMPLETED")]
    assert (record(one.world, 1).kind, record(one.world, 1).name) == (SAVEPOINT, "mine")
    assert answers[0] == answers[1]
    assert answers[0].status is DONE
    one.check()


def test_a_region_stops_with_what_is_requested_of_it_whatever_it_does(live: Callable[..., Live]) -> None:
    one = live(interval="10 s")
    one.orders[1] = "silent"
    one.at(15, lambda: handing(one, "id", STOP))
    assert one.run().status is PipelineStatus.FINISHED
    assert [(request, what) for _, request, what in one.history()][-1] == ("asked:id", "COMPLETED")
    assert one.second < 25
    assert one.world.store.audit("p", 1)[0].action.kind is ActionKind.STOP


def test_a_request_keeps_its_place_while_the_region_is_busy_for_long(live: Callable[..., Live]) -> None:
    one = live(interval="10 s", timeout="5 min")
    one.orders[1] = "silent"
    one.at(15, lambda: handing(one, "id"))
    one.run(until=360)
    found = [(request, what) for _, request, what in one.history()]
    assert ("asked:id", "COMPLETED") in found
    assert found.index(("asked:id", "COMPLETED")) == 1, "it comes before periodic ones"


def test_a_request_that_can_no_longer_be_taken_ends_nothing(live: Callable[..., Live]) -> None:
    one = live(interval="1 h")
    one.at(3, lambda: [handing(one, id_, label=Label("same")) for id_ in ("a", "b")])
    one.run(until=20)
    assert [(request, what) for _, request, what in one.history()] == [("asked:a", "COMPLETED")]
    with one.world.store.transaction("p") as tx:
        assert tx.requests() == []
    one.check()


def test_nobody_takes_the_request_of_a_pipeline_that_is_not_running(live: Callable[..., Live]) -> None:
    one, answers = live(), []
    one.at(3, lambda: suspend(one.world.coordinator))
    one.run(until=6)
    answers.append(handing(one, "id"))
    assert answers[0].status is REFUSED
    one.world.clock.sleep(timedelta(hours=1).total_seconds())
    assert shown(one.world.sink) == []
