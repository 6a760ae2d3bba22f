"""The pages where Airflow shows them: in its menu, as a tab of a DAG and of a DAG run, and behind a task's button."""

from urllib.parse import unquote

import pytest
from browsers import Watched, chromium
from live_airflow import PATIENCE

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(900)]


@pytest.fixture
def airflow_page(world):
    """A page of a browser that is logged in to the running Airflow."""
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="dark")
        context.set_default_timeout(90_000)
        context.add_cookies([{"name": "_token", "value": world.token(), "url": world.stack.url}])
        yield Watched(context).page


def test_from_the_menu_to_a_checkpoint_to_its_dag_run_and_back_by_the_tabs(world, airflow_page):
    world.lay("walked", ("walked", 1))
    run_id, state = world.run()
    assert state == "success"
    checkpoint_id = world.checkpoints()[0].checkpoint_id
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
    assert "has asked for no checkpoint" in frame.locator(".sentence").inner_text()


def test_every_task_of_a_run_leads_to_its_checkpoint(world):
    world.lay("linked", ("linked", 1))
    run_id = world.api.trigger("small")
    assert world.api.wait("small", run_id, PATIENCE) == "success"
    checkpoint_id = world.checkpoints()[0].checkpoint_id

    def link(task):
        path = f"/dags/small/dagRuns/{run_id}/taskInstances/{task}/links"
        return world.api.call("GET", path)["extra_links"]["Checkpoint"]

    steps = ("trigger", "snapshot", "acknowledge", "validate", "finalize", "notify")
    assert {link(step) for step in steps} == {f"/tidegate/pipelines/small/checkpoints/{checkpoint_id}"}
