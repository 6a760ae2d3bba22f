"""One real Airflow for all tests of this folder: scheduler, triggerer, DAG processor and API server."""

import runpy
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import airflow_home  # noqa: F401 - before anything imports Airflow
import pytest
from browsers import Watched, chromium
from live_airflow import PROJECT, World
from marked_runs import Marked
from public_directories import public_directory

from local_stack.spark_server import server_connection
from local_stack.stack import LocalStack
from tidegate.assembly import open_coordinator
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.lifecycle import Status
from tidegate.settings import Settings
from tidegate.state.storage import open_storage


@pytest.fixture(scope="package")
def world(connect_server):
    with public_directory("tidegate-airflow-") as home, _live_airflow(home, connect_server) as world:
        yield world


@contextmanager
def _live_airflow(home: Path, connect_server: str) -> Iterator[World]:
    server, _, token = connect_server.partition("/;token=")
    environment = {
        "TIDEGATE_HOME": str(home),
        "TIDEGATE_CACHE": str(home / "cache"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,otto:op,uma:user,vera:viewer",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",  # it would keep a core busy that other tests need
        "AIRFLOW_CONN_SPARK_SERVER": server_connection(int(server.rpartition(":")[2]), token),
    }
    stack = LocalStack(home / "stack", PROJECT / "tests/support/live_dags", PROJECT / "plugins", environment)
    with stack, closing(stack.api()) as api:
        store = PostgresCheckpointStore(connect(stack.database_url))
        world = World(home, stack, api, store)
        for dag_id in (
            "small", "small_again", "hasty", "consumer", "doomed", "brief", "yearly", "marked", "timed", "deleted",
            "overruled", "walked", "tidegate_restore",
        ):  # fmt: skip
            api.wait_for_dag(dag_id)
        # Begun here and looked at by its test: it spends its time waiting.
        world.lay("first", ("a", 1), pipeline="hasty")
        world.hold("hasty")
        world.hasty_run = api.trigger("hasty")
        yield world
        store.close()


@pytest.fixture
def airflow_page(world):
    """A page of a browser that is logged in to the running Airflow."""
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="dark")
        context.set_default_timeout(90_000)
        context.add_cookies([{"name": "_token", "value": world.token(), "url": world.stack.url}])
        yield Watched(context).page


@pytest.fixture(scope="module")
def region(world):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_HOME", str(world.home))
        patch.setenv("TIDEGATE_DATABASE_URL", world.stack.database_url)
        pipeline = runpy.run_path(str(PROJECT / "tests/support/live_dags/small.py"))["marked_pipeline"]
        coordinator = open_coordinator(pipeline)
        marked = Marked(world, pipeline, coordinator)
        yield marked
        coordinator.end_region(marked.attempt)


class Later(SystemClock):
    """Ten minutes ahead: what is in progress now is past its deadline then."""

    def now(self):
        return super().now() + timedelta(minutes=10)


@pytest.fixture
def ahead(region):
    """The coordinator of the same pipeline, later."""
    storage = open_storage(Settings.from_environment().storage)
    return CheckpointCoordinator(region.pipeline, region.world.store, storage, Later())


@pytest.fixture
def marked(region):
    """With nothing in progress, before a test and after it."""
    yield region
    assert Status.IN_PROGRESS not in {checkpoint.status for checkpoint in region.checkpoints()}
