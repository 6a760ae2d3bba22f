"""The local stack after SIGKILLs: every part of it in turn, while a checkpoint is under way.
Nothing but signals is used.

One stack for all. A DAG run is held in its snapshot by its own Spark job, and in its finalize and notify steps by a
trigger in the database that waits for a lock of the test's.
"""

import json
import os
import signal
import time
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg2
import pyarrow.dataset
import pytest
from public_directories import public_directory

from tidegate.local_stack.processes import belonging, is_alive
from tidegate.local_stack.stack import COMPONENTS, SUPERVISOR, LocalStack
from tidegate.protocol.errors import StoreUnavailableError

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

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
        driver = self.driver()
        return next((child for child in driver.children() if child.name() == "java"), None) if driver else None

    def python_workers(self):
        return [child for child in self.java().children(recursive=True) if "python" in child.name()]

    def component(self, name):
        return next(session for session in self.stack.sessions() if session.name == name).leader()

    def came_back(self, killed):
        """Every component runs, with another process where one was killed."""

        def whole():
            running = {s.name: s.leader() for s in self.stack.sessions() if s.leader() is not None}
            return set(running) == {SUPERVISOR, *COMPONENTS} and killed not in running.values()

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


@pytest.fixture(scope="module")
def kept():
    with public_directory("tidegate-killed-") as home:
        home.joinpath("landing").mkdir()
        environment = {"TIDEGATE_HOME": str(home), "TIDEGATE_CACHE": str(home / "cache")}
        stack = LocalStack(home / "stack", PROJECT / "tests/acceptance/live", PROJECT / "plugins", environment)
        with stack:
            with closing(stack.api()) as api:
                for dag_id in ("kept", "daemon"):
                    api.wait_for_dag(dag_id)
            with closing(psycopg2.connect(stack.postgres.url("tidegate").replace("+psycopg2", ""))) as connection:
                connection.autocommit = True
                for step, written in STEPS.items():
                    connection.cursor().execute(
                        f"""CREATE FUNCTION hold_{step}() RETURNS trigger LANGUAGE plpgsql AS
                            $$ BEGIN PERFORM pg_advisory_xact_lock({LOCKS[step]}); RETURN NEW; END $$;
                            CREATE TRIGGER hold_{step} BEFORE UPDATE ON tidegate.checkpoints FOR EACH ROW
                            WHEN ({written}) EXECUTE FUNCTION hold_{step}()"""
                    )
            yield Kept(home, stack)


def test_components_that_are_killed_come_back_while_a_snapshot_goes_on(kept):
    run_id = kept.begin(held=True)
    driver = kept.driver()
    for name in ("api-server", "dag-processor", "triggerer"):
        killed = kept.component(name)
        killed.kill()
        kept.came_back(killed)
    assert is_alive(driver)
    assert kept.finish(run_id)["snapshot"] == 1


def test_a_postmaster_that_is_killed_comes_back_on_its_port(kept):
    run_id = kept.begin(held=True)
    killed, url = kept.postmaster(), kept.stack.database_url
    killed.kill()
    wait_until(lambda: kept.postmaster() not in (None, killed), "another postmaster")
    wait_until(lambda: kept.stack.postgres.url() and True, "Postgres is ready")
    assert kept.stack.database_url == url
    kept.finish(run_id)


@pytest.mark.parametrize("victim", ["scheduler", "worker", "task", "java"])
def test_a_snapshot_goes_on_after_a_kill_and_nothing_of_the_old_one_stays(kept, victim):
    run_id = kept.begin(held=True)
    task, java = kept.driver(), kept.java()
    processes = {"scheduler": kept.component("scheduler"), "worker": task.parent(), "task": task, "java": java}
    below = [*kept.python_workers(), java, *([task, task.parent()] if victim != "java" else [])]
    processes[victim].kill()
    if victim in ("scheduler", "worker"):
        kept.came_back(processes["scheduler"])
    else:
        below.remove(task.parent()) if victim == "task" else None  # which goes on to the next task
    wait_until(lambda: not [process for process in below if is_alive(process)], "orphans have ended")
    assert kept.finish(run_id)["snapshot"] > (victim != "scheduler")  # Airflow counts no try if its scheduler is lost


@pytest.mark.parametrize(("step", "victim"), [("finalize", "task"), ("finalize", "worker"), ("notify", "scheduler")])
def test_a_step_that_is_killed_as_it_writes_is_repeated(kept, step, victim):
    with kept.held_in(step) as waiting:
        run_id = kept.begin()
        task = waiting()
        scheduler = kept.component("scheduler")
        {"task": task, "worker": task.parent(), "scheduler": scheduler}[victim].kill()
        if victim != "task":
            kept.came_back(scheduler)
        wait_until(lambda: not is_alive(task), "the task has ended")
        wait_until(lambda: waiting() != task, "another try")
    assert kept.finish(run_id)[step] > (victim != "scheduler")


def test_a_stack_without_its_supervisor_and_postgres_is_repaired_by_starting_it(kept):
    run_id = kept.begin(held=True)
    before = members(kept.stack)
    kept.component(SUPERVISOR).kill()
    kept.postmaster().kill()
    kept.component("scheduler").kill()
    kept.stack.start()
    assert [process for process in before if is_alive(process)] == []
    assert kept.stack.is_supervised()
    kept.finish(run_id)

    whole = {session.name: session.pid for session in kept.stack.sessions()}
    kept.stack.start()
    assert {session.name: session.pid for session in kept.stack.sessions()} == whole


def test_stopping_a_stack_whose_supervisor_was_killed_leaves_nothing(kept):
    kept.begin(held=True)
    with kept.api() as api:
        api.trigger("daemon")
    daemon = wait_until(
        lambda: (kept.home / "daemon").read_text() if (kept.home / "daemon").exists() else None, "daemon"
    )
    left = [psutil.Process(int(daemon)), *members(kept.stack), kept.postmaster()]
    assert {kept.java(), kept.driver()} <= set(left)
    assert os.getsid(int(daemon)) == int(daemon)
    kept.component(SUPERVISOR).send_signal(signal.SIGKILL)
    kept.component("scheduler").kill()
    kept.stack.stop()
    assert [process for process in left if is_alive(process)] == []
    assert not kept.stack.is_supervised()
