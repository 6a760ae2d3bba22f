"""What pages ask for about restores is recorded once, on every store."""

from dataclasses import replace

import pytest
from records import at

from tidegate.coordination.recovery.restores_on_pages import PlannedRestores
from tidegate.protocol.facts.errors import IllegalRequestError, RecordRefusedError, RestoreRefusedError
from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.protocol.recovery.restore_plan import Accepted

AMY, BOB = (Actor(ActorKind.AIRFLOW_USER, name, "10.0.0.1") for name in ("amy", "bob"))
PLAN = {"checkpoint": {"id": 1}, "sources": [{"missing": ["a\ud800b"]}]}
SKIP = Accepted(True, ("a", "b"), True)


@pytest.fixture
def plans(desk):
    world = desk()
    world.complete(world.ask("r1").checkpoint_id)
    return world.coordinator.operations.planned_restores


def test_a_plan_is_asked_for_made_and_confirmed_once(plans):
    asked = plans.ask("one", "1", AMY, "back")
    assert (asked.requested.run_id, asked.planned_at) == ("tidegate__one", None)
    assert plans.ask("one", "1", AMY, "another") == asked == plans.find("one")
    with pytest.raises(RestoreRefusedError, match="Its plan is not made yet"):
        plans.confirm("one", "yes", SKIP, AMY, "back")
    plans.store("one", PLAN, "digest")
    plans.store("one", {"checkpoint": {"id": 2}}, "of a second try")
    plans.refuse("one", "too late")
    planned = plans.find("one")
    assert (planned.document["sources"], planned.digest) == ([{"missing": ["a\ufffdb"]}], "digest")
    confirmed = plans.confirm("one", "yes", SKIP, AMY, "back")
    assert plans.confirm("one", "yes", SKIP, AMY, "back") == confirmed == plans.find("one")
    assert (confirmed.accepted, confirmed.confirmed.run_id) == (SKIP, "tidegate__yes")
    assert plans.confirm("nowhere", "yes", SKIP, AMY, "back") is None


def test_an_id_is_of_one_request_of_one_person(plans):
    plans.ask("one", "1", AMY, "back")
    plans.store("one", PLAN, "digest")
    plans.confirm("one", "yes", SKIP, AMY, "back")
    for target, actor in (("undo", AMY), ("1", BOB)):
        with pytest.raises(IllegalRequestError, match="is of the plan of a restore to checkpoint 1 for amy"):
            plans.ask("one", target, actor, "back")
    for accepted, actor in ((Accepted(), AMY), (SKIP, BOB)):
        with pytest.raises(IllegalRequestError, match="used with other answers"):
            plans.confirm("one", "yes", accepted, actor, "back")
    with pytest.raises(RestoreRefusedError, match="amy has confirmed this plan already"):
        plans.confirm("one", "no", SKIP, BOB, "back")


@pytest.mark.parametrize("target", ["", "0", "-1", "latest", "1 ", "\u0661", "9" * 19, "9" * 30])
def test_a_target_is_a_checkpoint_or_undo(plans, target):
    with pytest.raises(IllegalRequestError, match="neither the number of a checkpoint nor undo"):
        plans.ask("one", target, AMY, "back")


def test_what_cannot_be_planned_cannot_be_confirmed(plans):
    plans.ask("one", "undo", AMY, "back")
    plans.refuse("one", "There is nothing to undo.")
    with pytest.raises(RestoreRefusedError, match=r"There is nothing to undo\."):
        plans.confirm("one", "yes", SKIP, AMY, "back")


def test_the_store_refuses_to_change_what_was_shown_or_confirmed(plans: PlannedRestores, store):
    plans.ask("one", "1", AMY, "back")
    plans.store("one", PLAN, "digest")
    known = plans.confirm("one", "yes", SKIP, AMY, "back")
    for changes in (
        {"target": "2"},
        {"requested": replace(known.requested, dag_id="other")},
        {"digest": "other"},
        {"document": {"checkpoint": {"id": 9}}},
        {"planned_at": at(9)},
        {"document": None, "digest": None, "refusal": "no", "confirmed": None},
        {"confirmed": replace(known.confirmed, actor=BOB)},
        {"accepted": Accepted()},
    ):
        with pytest.raises(RecordRefusedError), store.transaction("p") as tx:
            tx.put_planned_restore(replace(known, **changes))
    plans.ask("two", "1", AMY, "back")
    two = plans.find("two")
    for changes in ({"refusal": "x"}, {"planned_at": at(1)}, {"planned_at": at(1), "document": PLAN},
                    {"confirmed": known.confirmed}):  # fmt: skip
        with pytest.raises(RecordRefusedError), store.transaction("p") as tx:
            tx.put_planned_restore(replace(two, **changes))
    assert (plans.find("one"), plans.find("two")) == (known, two)
