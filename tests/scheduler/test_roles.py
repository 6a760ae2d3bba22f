"""The users of a real Airflow on the pages: who reads, who acts, who may give up what nobody can bring back."""

import pytest
from browsers import Watched, chromium
from fastapi.routing import APIRoute
from routes import asked_of, example_of
from shown_pipelines import ShownPipeline
from worlds import MemoryStorage

from tidegate.protocol.facts.records import CheckpointKind
from tidegate.ui.app import create_app
from tidegate.ui.one_user import OneUser

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(900)]

FINAL = ("/cancel", "/dispose", "/drain")


@pytest.fixture
def shown(world):
    """A pipeline of a DAG, with a savepoint, a completed checkpoint and one in progress."""
    pipeline = ShownPipeline(world.store, MemoryStorage(), "walked_by_role")
    pipeline.complete(request="by-hand", kind=CheckpointKind.SAVEPOINT, name="before", note="")
    pipeline.complete()
    with world.store.transaction(pipeline.name) as tx:
        tx.record_dag("small", pipeline.clock.now())
    return pipeline


@pytest.fixture
def enter(world):
    """The pages in a browser that is logged in to the running Airflow, as Airflow frames them."""
    with chromium() as browser:

        def enter_(user, path):
            context = browser.new_context(viewport={"width": 1280, "height": 800})
            context.set_default_timeout(90_000)
            context.add_cookies([{"name": "_token", "value": world.token(user), "url": world.stack.url}])
            watched = Watched(context)
            watched.page.goto(f"{world.stack.url}/plugin/checkpoints/tidegate/{path}")
            frame = watched.page.frame_locator("iframe")
            frame.locator("#live[data-state=live]").wait_for()
            return frame

        yield enter_


def acting():
    """Every route that changes something, from the app's own list."""
    routes = [route for route in create_app(users=OneUser("", 1)).routes if isinstance(route, APIRoute)]
    return [route for route in routes if "GET" not in route.methods]


def status(world, shown, user, route):
    """Of a user action on a checkpoint that there is not, or that is refused otherwise."""
    token = world.token(user)
    how = asked_of(route, token)
    path = example_of(route).replace("flight_delays", shown.name).lstrip("/")
    return world.page(path, user, how.pop("method"), **how).status_code


def test_a_viewer_reads_an_operator_acts_and_each_is_on_record(world, shown, enter):
    assert len(acting()) >= 10
    page = f"pipelines/{shown.name}"
    for route in acting():
        assert status(world, shown, "vera", route) == 403, route.path
        if route.path.endswith(FINAL):
            assert status(world, shown, "uma", route) == 403, route.path
    assert world.page(f"api/v1/{page}/audit").json()["audit"] == []

    frame = enter("vera", page)
    buttons = frame.locator("#actions button")
    assert buttons.count() >= 2
    assert all(button.is_disabled() for button in buttons.all())
    assert "takes the right to edit or delete one" in frame.locator("#denied").inner_text()

    frame = enter("otto", page)
    frame.get_by_text("Suspend …").click()
    frame.get_by_role("button", name="Suspend").click()
    frame.locator("#answer", has_text="is SUSPENDED").wait_for()
    frame.get_by_role("button", name="Resume").click()
    frame.locator("#answer", has_text="is RUNNING").wait_for()

    frame = enter("admin", f"{page}/checkpoints/1")
    frame.get_by_text("Dispose …").click()
    frame.get_by_role("button", name="Dispose of this savepoint").click()
    frame.locator("#answer", has_text="was disposed of").wait_for()

    frame = enter("vera", f"{page}/audit")
    rows = [row.split("\t")[1:3] for row in frame.locator("tbody tr").all_inner_texts()]
    assert [(kind, who.split()[0]) for kind, who in rows] == [
        ("DISPOSE", "admin"), ("RESUME", "otto"), ("SUSPEND", "otto")
    ]  # fmt: skip
