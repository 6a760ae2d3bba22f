"""Processes of the local stack are found and stopped as a whole, whatever their starter and their groups did."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from local_stack.processes import MARK, Session, belonging, end, read_sessions, start_session, write_sessions

#: A leader with a child in a process group of its own, as Airflow's tasks have; it prints the child's pid.
LEADER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
print(child.pid, flush=True)
time.sleep(600)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def started(tmp_path):
    handles, sessions = [], []

    def start(program):
        log = tmp_path / f"{len(handles)}.log"
        session, handle = start_session("part", [sys.executable, "-c", program], os.environ, log, tmp_path)
        handles.append(handle)
        sessions.append(session)
        deadline = time.monotonic() + 30
        while not log.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return session, log.read_text().split()[0]

    yield start
    for session, handle in zip(sessions, handles, strict=True):
        end(session.members, grace=0)
        handle.kill()
        handle.wait()


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_stopping_also_ends_those_in_other_process_groups(started):
    session, child = started(LEADER)
    assert os.getpgid(int(child)) != os.getpgid(session.pid)
    end(session.members)
    assert not alive(session.pid)
    assert not alive(int(child))


def test_members_are_stopped_although_their_leader_was_killed(started):
    session, child = started(LEADER)
    os.kill(session.pid, signal.SIGKILL)
    os.waitpid(session.pid, 0)
    assert session.leader() is None
    assert [process.pid for process in session.members()] == [int(child)]
    end(session.members)
    assert not alive(int(child))


def test_what_does_not_listen_is_killed(started):
    session, _ = started(STUBBORN)
    end(session.members, grace=0.5)
    assert not alive(session.pid)


def test_sessions_are_found_again_from_the_file(started, tmp_path):
    session, _ = started(LEADER)
    write_sessions(tmp_path / "sessions.json", [session])
    [found] = read_sessions(tmp_path / "sessions.json")
    assert found == session
    assert found.leader() is not None
    assert read_sessions(tmp_path / "none.json") == []


def test_a_process_that_only_has_the_same_pid_is_left_alone():
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        earlier = Session("part", stranger.pid, psutil.Process(stranger.pid).create_time() - 3600)
        assert earlier.leader() is None
        assert earlier.members() == []
        end(earlier.members, grace=0.5)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


#: A leader whose child has begun a session of its own and whose grandchild outlives both; it prints that one's pid.
LEAVER = """
import subprocess, sys, time
child = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
subprocess.run([sys.executable, "-c", child], start_new_session=True)
time.sleep(600)
"""


def test_what_has_left_the_session_is_found_by_its_mark(started, monkeypatch, tmp_path):
    monkeypatch.setenv(MARK, str(tmp_path))
    session, left = started(LEAVER)
    monkeypatch.delenv(MARK)
    assert int(left) not in [process.pid for process in session.members()]
    deadline = time.monotonic() + 30  # the child has printed, and may not have ended yet
    while {int(left), session.pid} != (found := {process.pid for process in belonging([], str(tmp_path))}):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    end(lambda: belonging([session], str(tmp_path)))
    assert not alive(int(left))


def test_what_a_process_starts_while_it_ends_is_ended_too(started):
    """One that starts another one each time it is asked to end, until it is killed."""
    program = """
import signal, subprocess, sys, time
def again(number, frame):
    subprocess.Popen(["sleep", "600"])
signal.signal(signal.SIGTERM, again)
print("ready", flush=True)
while True:
    time.sleep(1)
"""
    session, _ = started(program)
    end(session.members, grace=0.5)
    assert session.members() == []
