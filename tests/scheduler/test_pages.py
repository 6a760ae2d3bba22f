"""The pages where Airflow shows them: in its menu, as a tab of a DAG and of a DAG run, and behind a task's button."""

from contextlib import closing
from urllib.parse import unquote
from uuid import uuid4

import httpx
import pytest
from live_airflow import PATIENCE, restored

from tidegate.protocol.facts.lifecycle import Status
from tidegate.ui.same_site import HEADER, token_of

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def completed(world):
    """A DAG run and its checkpoint, which the tests of this file look at."""
    world.lay("walked", ("walked", 1))
    run_id, state = world.run()
    assert state == "success"
    return run_id, world.checkpoints()[0].checkpoint_id


def test_from_the_menu_to_a_checkpoint_to_its_dag_run_and_back_by_the_tabs(world, completed, airflow_page):
    run_id, checkpoint_id = completed
    page, url = airflow_page, world.stack.url

    page.goto(url)
    page.get_by_text("Checkpoints", exact=True).click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="small", exact=True).first.click()
    frame.locator(".figures").get_by_role("link", name=str(checkpoint_id), exact=True).first.click()
    frame.get_by_role("heading", name=f"Checkpoint {checkpoint_id}").wait_for()
    frame.locator("#live[data-state=live]").wait_for()
    page.wait_for_url(f"{url}/plugin/checkpoints/tidegate/pipelines/small/checkpoints/{checkpoint_id}")
    assert frame.locator("html").evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    page.reload()  # the address can be sent to a colleague
    frame.get_by_role("heading", name=f"Checkpoint {checkpoint_id}").wait_for()

    frame.get_by_role("link", name=run_id).click()
    page.wait_for_url(lambda address: unquote(address).startswith(f"{url}/dags/small/runs/{run_id}"))
    page.get_by_role("link", name="Checkpoint", exact=True).last.click()
    frame.get_by_role("link", name=str(checkpoint_id), exact=True).wait_for()
    page.goto(f"{url}/dags/small")
    page.get_by_role("link", name="Checkpoints", exact=True).last.click()
    frame.get_by_role("heading", name="small").wait_for()

    page.goto(f"{url}/dags/consumer/plugin/checkpoints-of-dag")
    assert "has requested no checkpoint" in frame.locator(".sentence").inner_text()


def latest_of(world):
    """The latest completed checkpoint of `small`, taken now if there is none."""
    if not world.checkpoints():
        world.lay("begun", ("begun", 1))
        assert world.run()[1] == "success"
    completed = (each for each in world.checkpoints() if each.status is Status.COMPLETED and not each.abandoned_by)
    return next(each.checkpoint_id for each in completed)


def test_a_restore_is_planned_shown_confirmed_and_carried_out_by_dag_runs_that_the_page_starts(world, airflow_page):
    latest = latest_of(world)
    page = airflow_page
    page.goto(f"{world.stack.url}/tidegate/pipelines/small/checkpoints/{latest}")
    page.get_by_text("Restore to this").click()  # checkpoint, or savepoint
    said = restored(page, f"Restore to checkpoint {latest}")
    assert "confirmed by admin" in said
    (known,) = world.store.audit("small", 1)
    assert (known.action.kind, known.action.actor.kind, known.action.actor.name) == (
        "RESTORE", "AIRFLOW_USER", "admin"
    )  # fmt: skip
    runs = world.api.call("GET", "/dags/tidegate_restore/dagRuns", params={"order_by": "-run_after"})["dag_runs"]
    assert {run["triggering_user_name"] for run in runs[:2]} == {"admin"}
    assert [run["conf"]["dry_run"] for run in runs[:2]] == [False, True]


@pytest.mark.long
def test_what_was_planned_and_restored_is_answered_the_same_when_its_runs_are_cleared(world):
    """Planned once, and restored once."""
    latest = latest_of(world)
    with closing(Asking(world)) as hands:
        _planned_and_restored_twice(world, hands, latest)


def _planned_and_restored_twice(world, hands, latest):
    plan = hands.ask("plan-restore", to=str(latest))
    run = f"tidegate__{plan}"
    assert world.api.wait("tidegate_restore", run, PATIENCE) == "success"
    before = hands.read(plan)
    world.api.clear("tidegate_restore", run)
    assert world.api.wait("tidegate_restore", run, PATIENCE) == "success"
    assert hands.read(plan) == before
    confirmed = hands.ask(f"restore-plans/{plan}/restore")
    run = f"tidegate__{confirmed}"
    assert world.api.wait("tidegate_restore", run, PATIENCE) == "success"
    answered = hands.read(plan)["answer"]
    assert (answered["status"], answered["request_id"]) == ("DONE", confirmed)
    world.api.clear("tidegate_restore", run)
    assert world.api.wait("tidegate_restore", run, PATIENCE) == "success"
    assert hands.read(plan)["answer"] == answered
    assert sum(each.action.request_id == confirmed for each in world.store.audit("small", 50)) == 1


class Asking:
    """A program with admin's token."""

    def __init__(self, world):
        token = world.token()
        self.client = httpx.Client(
            base_url=f"{world.stack.url}/tidegate/api/v1/pipelines/small/", timeout=60,
            headers={"Authorization": f"Bearer {token}", HEADER: token_of(token)},
        )  # fmt: skip

    def close(self):
        self.client.close()

    def ask(self, path, **given):
        request_id = str(uuid4())
        for _ in range(2):  # whoever hears nothing asks again
            answer = self.client.post(path, json={"request_id": request_id, **given})
            assert answer.status_code == 200, answer.text
        return request_id

    def read(self, plan):
        return self.client.get(f"restore-plans/{plan}").json()


def test_every_task_of_a_run_leads_to_its_checkpoint(world, completed):
    run_id, checkpoint_id = completed

    def link(task):
        path = f"/dags/small/dagRuns/{run_id}/taskInstances/{task}/links"
        return world.api.call("GET", path)["extra_links"]["Checkpoint"]

    steps = ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify")
    assert {link(step) for step in steps} == {f"/tidegate/pipelines/small/checkpoints/{checkpoint_id}"}
