"""The local stack after SIGKILLs: every part of it in turn, while a checkpoint is under way.
Nothing but signals is used.

One stack for all. A DAG run is held in its snapshot by its own Spark job, and in its finalize and notify steps by a
trigger in the database that waits for a lock of the test's.
"""

import os
import signal
from contextlib import closing

import psutil
import psycopg2
import pytest
from kept_stacks import LOCKS, STEPS, kept_stack, members, wait_until

from local_stack.processes import is_alive
from local_stack.stack import SUPERVISOR

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def kept():
    with kept_stack() as kept:
        url = kept.stack.postgres.url("tidegate").replace("+psycopg2", "")
        with closing(psycopg2.connect(url)) as connection:
            connection.autocommit = True
            for step, written in STEPS.items():
                connection.cursor().execute(
                    f"""CREATE FUNCTION hold_{step}() RETURNS trigger LANGUAGE plpgsql AS
                        $$ BEGIN PERFORM pg_advisory_xact_lock({LOCKS[step]}); RETURN NEW; END $$;
                        CREATE TRIGGER hold_{step} BEFORE UPDATE ON tidegate.checkpoints FOR EACH ROW
                        WHEN ({written}) EXECUTE FUNCTION hold_{step}()"""
                )
        yield kept


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
