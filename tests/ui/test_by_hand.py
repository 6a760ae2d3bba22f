"""What people do by hand, in a real browser: the buttons that are there now, their answers, and the page after them."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from registered_dags import register
from shown_pipelines import HOSTILE, ShownPipeline
from worlds import MemorySink, small_pipeline

from tidegate.protocol.facts.errors import RestoreRefusedError
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.recovery.restores_on_pages import action_of

pytestmark = pytest.mark.browser


@pytest.fixture
def strikes(site, request):
    """A pipeline whose rules hold, with one completed checkpoint."""
    name = request.node.name[5:45]
    pipeline = ShownPipeline(site.store, site.storage, name, ago=timedelta(minutes=5), hold_for="2 h")
    pipeline.complete()
    return pipeline


@pytest.fixture
def opened(open_page, strikes):
    def open_(path="", **options):
        watched = open_page(f"pipelines/{strikes.name}{path}", **options)
        watched.page.locator("#live[data-state=live]").wait_for()
        return watched

    return open_


def answered(page, said):
    page.locator("#answer", has_text=said).wait_for()


def kinds(strikes):
    return [record.action.kind for record in strikes.store.audit(strikes.name, 20)]


def test_a_held_checkpoint_is_approved_and_the_pipeline_suspended_and_resumed(strikes, opened):
    held = strikes.hold()
    watched = opened(f"/checkpoints/{held}")
    page = watched.page
    assert watched.serious() == []
    page.get_by_label("Comment").fill(f"It was a strike. {HOSTILE}")
    page.get_by_role("button", name="Approve").click()
    answered(page, f"Checkpoint {held}")
    page.get_by_role("button", name="Approve").wait_for(state="detached")
    strikes.coordinator.finalize(held)
    page.locator(".pill", has_text="COMPLETED").wait_for()
    assert page.locator("#answer").inner_text()  # it stays

    page.goto(page.url.split("/checkpoints")[0])
    page.get_by_text("Suspend …").click()
    page.get_by_role("button", name="Suspend").click()
    answered(page, "is SUSPENDED")
    page.get_by_role("button", name="Resume").click()
    answered(page, "is RUNNING")
    page.get_by_text("Suspend …").wait_for()

    page.get_by_role("link", name="Audit").click()
    rows = page.locator("tbody tr")
    rows.first.wait_for()
    assert [row.split("\t")[1] for row in rows.all_inner_texts()] == ["RESUME", "SUSPEND", "APPROVE"]
    assert "somebody" in rows.first.inner_text()
    assert f"It was a strike. {HOSTILE}" in rows.last.inner_text()
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.body.dataset.owned") is None
    assert watched.serious() == []
    assert watched.wrong == []


def test_a_plan_is_accepted_point_by_point_then_confirmed_and_its_answer_appears(strikes, opened):
    from tidegate.airflow import restore_dag

    pipeline = small_pipeline(MemorySink())
    pipeline.name = strikes.name
    register(restore_dag(pipeline, dag_id="way_back"))
    plan = str(uuid4())
    strikes.plan(plan, 1, "way_back")
    watched = opened(f"/restore-plans/{plan}")
    page = watched.page
    assert watched.serious() == []
    restore = page.get_by_role("button", name="Restore to checkpoint 1")
    restore.click()
    assert page.locator("#answer").inner_text() == "", "the browser asks for the boxes first"
    for box in page.get_by_role("checkbox").all():
        box.check()
    with page.expect_request("**/restore") as sent:
        restore.click()
    body = json.loads(sent.value.post_data)
    assert {**body, "request_id": ""} == {"request_id": "", "skip_missing_files": "true", "leave": ["mail"]}
    answered(page, "is restored by DAG run")
    page.locator(".pill", has_text="being restored").wait_for()
    restore.wait_for(state="detached")

    planned = strikes.coordinator.operations.planned_restores.find(plan)
    assert planned.accepted == Accepted(True, ("mail",))
    with (
        pytest.raises(RestoreRefusedError),
        strikes.coordinator.auditing.attempt(action_of(planned, planned.confirmed)),
    ):
        raise RestoreRefusedError("Checkpoints have followed each other too quickly.")
    page.locator("#result.fails", has_text="too quickly").wait_for()
    page.get_by_role("button", name="Make a new plan").click()
    page.wait_for_url(lambda url: "/restore-plans/" in url and plan not in url)
    page.locator(".pill", has_text="being planned").wait_for()
    assert "which is queued" in page.locator("[data-lasts]").inner_text()
    assert watched.wrong == []


def test_what_is_typed_stays_while_the_page_follows(strikes, opened):
    held = strikes.hold()
    page = opened(f"/checkpoints/{held}").page
    page.get_by_label("Comment").fill("half a sent")
    with strikes.store.transaction(strikes.name) as tx:
        tx.record_dag("another", strikes.clock.now())
    with page.expect_response(lambda answer: answer.url.endswith(f"/checkpoints/{held}")):
        strikes.coordinator.operations.rename("x", _anybody(), "99", _label())  # refused: it is on record all the same
    page.wait_for_timeout(300)
    assert page.get_by_label("Comment").input_value() == "half a sent"
    assert page.evaluate("document.activeElement.name") == "comment"


def test_after_a_lost_answer_the_same_button_asks_again_with_the_same_id(strikes, opened):
    page = opened().page
    asked = []

    def lose(route):
        asked.append(json.loads(route.request.post_data)["request_id"])
        route.fetch()  # it is done, and nobody hears of it
        route.abort()

    page.route("**/suspend", lose, times=1)
    page.get_by_text("Suspend …").click()
    page.get_by_role("button", name="Suspend").evaluate("button => { window.form = button.form; button.click(); }")
    answered(page, "The server does not answer")
    with page.expect_request("**/suspend") as again:
        page.evaluate("document.querySelector('main').append(window.form); window.form.querySelector('button').click()")
    answered(page, "is SUSPENDED")
    assert asked == [json.loads(again.value.post_data)["request_id"]]
    assert kinds(strikes) == ["SUSPEND"]


def test_a_savepoint_is_renamed_and_disposed_of_in_airflows_frame(site, strikes, opened):
    savepoint = strikes.complete(request=f"by-hand-{strikes.name}", kind=CheckpointKind.SAVEPOINT)
    strikes.complete()
    watched = opened()
    path = f"/tidegate/pipelines/{strikes.name}/checkpoints/{savepoint}"
    watched.page.goto(f"{site.server.address}/host?path={path}")
    frame = watched.page.frames[1]
    frame.locator("#live[data-state=live]").wait_for()
    frame.get_by_text("Rename …").click()
    frame.get_by_label("Name").fill("123")
    frame.get_by_role("button", name="Rename").click()
    answered(frame, "123 cannot name a savepoint")
    assert frame.locator("#answer.bad").count() == 1
    frame.get_by_label("Name").fill("before-the-strike")
    frame.get_by_role("button", name="Rename").click()
    answered(frame, "is called before-the-strike")
    frame.locator("h1", has_text="“before-the-strike”").wait_for()
    frame.get_by_text("Dispose …").click()
    frame.get_by_role("button", name="Dispose of this savepoint").click()
    answered(frame, "was disposed of")
    frame.get_by_text("Dispose …").wait_for(state="detached")
    assert kinds(strikes) == ["DISPOSE", "RENAME", "RENAME"]
    assert [text for text in watched.wrong if "404" not in text and "409" not in text] == []


def test_aborting_and_cancelling_take_two_steps(strikes, opened):
    running = strikes.trigger()
    page = opened().page
    assert not page.get_by_role("button", name="Cancel this pipeline").is_visible()
    page.get_by_text(f"Abort checkpoint {running} …").click()
    page.get_by_role("button", name=f"Abort checkpoint {running}").click()
    answered(page, "is FAILED: COORDINATOR_SUSPEND")
    page.locator(".figures dd", has_text="none").first.wait_for()
    page.get_by_text("Cancel …").click()
    page.get_by_role("button", name="Cancel this pipeline").click()
    answered(page, "is CANCELLED")
    page.get_by_text("Cancel …").wait_for(state="detached")


def test_who_may_only_read_finds_grey_buttons_that_say_why(site, strikes, opened, monkeypatch):
    from airflow.api_fastapi.app import get_auth_manager

    monkeypatch.setattr(get_auth_manager(), "is_authorized_dag", lambda *, method, **_: method == "GET")
    watched = opened()
    buttons = watched.page.locator("#actions button")
    assert buttons.count() == 2
    assert all(button.is_disabled() for button in buttons.all())
    assert "require the right to edit or delete one" in watched.page.locator("#denied").inner_text()
    assert watched.serious() == []


@pytest.mark.long
def test_actions_fit_a_narrow_dark_window(strikes, opened):
    strikes.hold()
    with strikes.store.transaction(strikes.name) as tx:
        tx.begin_region(strikes.clock.now() + timedelta(minutes=4))
    watched = opened(scheme="dark", width=400)
    watched.page.locator("details.action").evaluate_all("all => all.forEach((one) => (one.open = true))")
    assert watched.page.get_by_role("button", name="Drain and stop").is_visible()
    assert not watched.is_wider_than_the_window()
    assert watched.serious() == []


def _anybody():
    from tidegate.protocol.observing.actions import Actor, ActorKind

    return Actor(ActorKind.CLI_USER, "ada", "here")


def _label():
    from tidegate.protocol.facts.savepoints import Label

    return Label("x")
