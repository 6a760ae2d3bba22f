"""A local stack that runs for real, with a pipeline whose snapshot and steps a test can hold."""

import json
import time
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg2
import pyarrow.dataset
from public_directories import public_directory

from local_stack.processes import belonging
from local_stack.spark_server import SPARK
from local_stack.stack import SUPERVISOR, LocalStack
from tidegate.protocol.facts.errors import StoreUnavailableError

PROJECT = Path(__file__).parents[2]
#: Seconds for anything that happens in a few where nothing else runs.
PATIENCE = 300.0
#: When a step writes what it is about: then it waits for whoever holds its lock.
STEPS = {"finalize": "NEW.status = 'COMPLETED' AND OLD.status <> 'COMPLETED'", "notify": "NEW.notified_at IS NOT NULL"}
LOCKS = {"finalize": 1001, "notify": 1002}


class Kept:
    """The stack, and what the tests want to know of it."""

    def __init__(self, home, stack):
        self.home, self.stack = home, stack
        self.laid = 0

    @contextmanager
    def api(self):
        """Airflow's API, once it answers and has its database."""
        with closing(self.stack.api()) as api:
            wait_until(lambda: api.health().get("metadatabase") == "healthy", "the API server answers")
            yield api

    def lay(self):
        """One more row; what the table must then have."""
        self.laid += 1
        unfinished = self.home / f"{self.laid}.json"
        unfinished.write_text(json.dumps({"k": "all", "n": 1}))
        unfinished.rename(self.home / "landing" / unfinished.name)

    def begin(self, held=False):
        """A DAG run, until its snapshot is held if that is wanted."""
        self.lay()
        self.home.joinpath("driver").unlink(missing_ok=True)
        if held:
            self.home.joinpath("hold").touch()
        with self.api() as api:
            run_id = api.trigger("kept")
        if held:
            wait_until(lambda: self.java() is not None and self.python_workers(), "the snapshot is held")
        return run_id

    def finish(self, run_id):
        """Let the run go, and see that it counted its row once."""
        self.home.joinpath("hold").unlink(missing_ok=True)
        with self.api() as api:
            assert api.wait("kept", run_id, PATIENCE) == "success"
            tries = {name: task["try_number"] for name, task in api.tasks("kept", run_id).items()}
        table = pyarrow.dataset.dataset(self.home / "tables/totals/current").to_table().to_pylist()
        assert table == [{"k": "all", "lines": self.laid, "total": self.laid}]
        return tries

    def driver(self):
        """The process of the task whose snapshot is held."""
        path = self.home / "driver"
        return psutil.Process(int(path.read_text())) if path.exists() and path.read_text() else None

    def java(self):
        """Of the Spark that the held snapshot runs on: the task's own, or the stack's."""
        driver = self.driver()
        if driver is None or self.stack.spark_server:
            return self.component(SPARK) if driver else None
        return next((child for child in driver.children() if child.name() == "java"), None)

    def python_workers(self):
        return [child for child in self.java().children(recursive=True) if "python" in child.name()]

    def component(self, name):
        return next(session for session in self.stack.sessions() if session.name == name).leader()

    def came_back(self, killed):
        """Every component runs, with another process where one was killed."""

        def whole():
            running = {s.name: s.leader() for s in self.stack.sessions() if s.leader() is not None}
            return set(running) == {SUPERVISOR, *self.stack.components} and killed not in running.values()

        wait_until(whole, "the killed component is back")

    def postmaster(self):
        pid = self.stack.postgres.pid()
        return psutil.Process(pid) if pid is not None else None

    @contextmanager
    def held_in(self, step):
        """While the lock of the step is held; gives what finds the process of the task that waits for it."""
        url = self.stack.database_url.replace("+psycopg2", "")
        with closing(psycopg2.connect(url)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock(%s)", (LOCKS[step],))

                def waiting():
                    cursor.execute(
                        "SELECT client_port FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                        " AND wait_event = 'advisory' AND datname = current_database()"
                    )
                    ports = {port for (port,) in cursor.fetchall()}
                    return next((p for p in members(self.stack) if ports & set(local_ports(p))), None)

                yield lambda: wait_until(waiting, f"{step} waits")


def members(stack):
    return belonging(stack.sessions(), str(stack.home))


def local_ports(process):
    try:
        return [connection.laddr.port for connection in process.net_connections("tcp")]
    except psutil.Error:
        return []


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if found := condition():
                return found
        except (psutil.Error, StopIteration, StoreUnavailableError):
            pass
        assert time.monotonic() < deadline, f"not seen: {what}"
        time.sleep(0.1)


@contextmanager
def kept_stack(spark_server=False):
    with public_directory("tidegate-killed-") as home:
        home.joinpath("landing").mkdir()
        environment = {"TIDEGATE_HOME": str(home), "TIDEGATE_CACHE": str(home / "cache")}
        dags = PROJECT / "tests/acceptance/live"
        stack = LocalStack(home / "stack", dags, PROJECT / "plugins", environment, spark_server=spark_server)
        with stack:
            with closing(stack.api()) as api:
                for dag_id in ("kept", "daemon"):
                    api.wait_for_dag(dag_id)
            yield Kept(home, stack)
