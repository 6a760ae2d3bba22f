"""The supervisor with its real Postgres, real processes and real signals,
and sleepers in the place of Airflow's components."""

import os
import time

import psutil
import pytest
from public_directories import public_directory
from sizes import later

from local_stack.processes import belonging, is_alive
from local_stack.stack import COMPONENTS, SUPERVISOR, LocalStack, StackError
from tidegate.protocol.facts.errors import StoreUnavailableError

#: `python -m airflow scheduler` has two workers that do not listen to SIGTERM,
#: each with a child in a session of its own.
AIRFLOW = """
import subprocess, sys, time
if sys.argv[1] == "scheduler":
    for _ in range(2):
        worker = ["airflow worker -- LocalExecutor: <idle>", "-c", "trap '' TERM; setsid sleep 600 & wait; wait"]
        subprocess.Popen(worker, executable="/bin/bash")
time.sleep(600)
"""
PATIENCE = 120.0


@pytest.fixture(scope="module")
def stack():
    with public_directory("tidegate-supervised-") as home, pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStack, "_run", lambda stack, *command: None)
        patch.setattr(LocalStack, "_wait_until_healthy", lambda stack, report, timeout: whole(stack))
        package = home / "stack" / "airflow"  # components start in the stack's home, where Python looks first
        package.mkdir(parents=True)
        package.joinpath("__init__.py").touch()
        package.joinpath("__main__.py").write_text(AIRFLOW)
        stack = LocalStack(home / "stack", home, home)
        stack.start()
        yield stack
        stack.stop()


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(stack):
    return {session.name: process for session in stack.sessions() if (process := session.leader()) is not None}


def workers(stack):
    scheduler = running(stack).get("scheduler")
    try:
        return [p for p in scheduler.children() if "LocalExecutor" in p.cmdline()[0]] if scheduler else []
    except (psutil.Error, IndexError):
        return []


def whole(stack):
    """Until everything runs, the sleepers below the workers too. Without a supervisor it would never."""

    def look():
        if not stack.is_supervised():
            raise StackError("The supervisor has ended.")
        return (
            set(running(stack)) == {SUPERVISOR, *COMPONENTS}
            and stack.postgres.pid() is not None
            and len(workers(stack)) == 2
            and all(worker.children() for worker in workers(stack))
        )

    wait_until(look)


def connects(stack):
    try:
        return bool(stack.database_url)
    except StoreUnavailableError:
        return False


def members(stack):
    return belonging(stack.sessions(), str(stack.home))


@pytest.mark.parametrize("name", [name if name == "scheduler" else later(name) for name in COMPONENTS])
def test_a_component_is_started_again_and_what_it_left_behind_is_ended(stack, name):
    whole(stack)
    killed = running(stack)[name]
    below = killed.children(recursive=True)
    others = {other: process for other, process in running(stack).items() if other != name}
    assert name != "scheduler" or len(below) == 4
    killed.kill()
    wait_until(lambda: running(stack).get(name) not in (None, killed))
    assert not [process for process in below if is_alive(process)]
    assert {other: process for other, process in running(stack).items() if other != name} == others


def test_a_scheduler_that_has_lost_a_worker_is_started_again(stack):
    whole(stack)
    scheduler, lost = running(stack)["scheduler"], workers(stack)[0]
    below = scheduler.children(recursive=True)
    time.sleep(1.5)  # the supervisor must have seen the workers once
    lost.kill()
    wait_until(lambda: running(stack).get("scheduler") not in (None, scheduler))
    assert not [process for process in below if is_alive(process)]


def test_a_postmaster_that_is_killed_is_started_again_where_it_was(stack):
    whole(stack)
    url, before, killed = stack.database_url, running(stack), psutil.Process(stack.postgres.pid())
    killed.kill()
    wait_until(lambda: stack.postgres.pid() not in (None, killed.pid))
    whole(stack)
    wait_until(lambda: connects(stack))
    assert stack.database_url == url
    assert running(stack) == before


def test_starting_leaves_a_whole_stack_alone_and_repairs_any_other(stack):
    whole(stack)
    before = running(stack)
    stack.start()
    assert running(stack) == before

    all_of_it = members(stack)
    before[SUPERVISOR].kill()
    before["scheduler"].kill()
    psutil.Process(stack.postgres.pid()).kill()
    wait_until(lambda: not stack.is_supervised())  # a killed process is there for a moment
    stack.start()
    assert not [process for process in all_of_it if is_alive(process)]
    assert stack.is_supervised()


@pytest.mark.long
def test_starting_with_other_settings_starts_it_anew(stack):
    whole(stack)
    before = running(stack)
    again = LocalStack(stack.home, stack.dags, stack.plugins, {"ANOTHER": "setting"})
    again.start()
    assert not set(before.values()) & set(running(again).values())
    assert running(again)["scheduler"].environ()["ANOTHER"] == "setting"
    again.stop()
    stack.start()


@pytest.mark.parametrize("first", [later(SUPERVISOR), "scheduler", later("postgres"), later(None)])
def test_stopping_leaves_nothing_whatever_was_killed_before(stack, first):
    stack.start()
    all_of_it = [*members(stack), psutil.Process(stack.postgres.pid())]
    assert len({os.getsid(process.pid) for process in all_of_it}) >= 1 + 1 + 4 + 2
    victims = {**running(stack), "postgres": psutil.Process(stack.postgres.pid())}
    if first is not None:
        victims[first].kill()
    stack.stop()
    assert not [process for process in all_of_it if is_alive(process)]
    assert not stack.is_supervised()
    assert members(stack) == []
