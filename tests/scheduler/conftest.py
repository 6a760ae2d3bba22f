"""One real Airflow for all tests of this folder: scheduler, triggerer, DAG processor and API server."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import airflow_home  # noqa: F401 - before anything imports Airflow
import pytest
from live_airflow import PROJECT, World
from public_directories import public_directory

from tidegate.local_stack.stack import LocalStack
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore


@pytest.fixture(scope="package")
def world(connect_server):
    with public_directory("tidegate-airflow-") as home, _live_airflow(home, connect_server) as world:
        yield world


@contextmanager
def _live_airflow(home: Path, connect_server: str) -> Iterator[World]:
    server = urlsplit(connect_server)
    environment = {
        "TIDEGATE_HOME": str(home),
        "TIDEGATE_CACHE": str(home / "cache"),
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",  # it would keep a core busy that other tests need
        "AIRFLOW_CONN_SPARK_SERVER": json.dumps(
            {"conn_type": "spark_connect", "host": server.hostname, "port": server.port}
        ),
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
