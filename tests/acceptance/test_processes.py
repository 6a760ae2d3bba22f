"""Processes of the local stack are found and stopped as a whole, whatever their starter and their groups did."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tidegate.demo.processes import Session, read_sessions, start_session, stop_sessions, write_sessions

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
    handles = []

    def start(program):
        log = tmp_path / f"{len(handles)}.log"
        session, handle = start_session("part", [sys.executable, "-c", program], os.environ, log, tmp_path)
        handles.append(handle)
        deadline = time.monotonic() + 30
        while not log.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return session, log.read_text().split()[0]

    yield start
    for handle in handles:
        handle.kill()
        handle.wait()


def alive(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_stopping_also_ends_those_in_other_process_groups(started):
    session, child = started(LEADER)
    assert os.getpgid(int(child)) != os.getpgid(session.pid)
    stop_sessions([session])
    assert not alive(session.pid)
    assert not alive(int(child))


def test_members_are_stopped_although_their_leader_was_killed(started):
    session, child = started(LEADER)
    os.kill(session.pid, signal.SIGKILL)
    os.waitpid(session.pid, 0)
    assert session.leader() is None
    assert [process.pid for process in session.members()] == [int(child)]
    stop_sessions([session])
    assert not alive(int(child))


def test_what_does_not_listen_is_killed(started):
    session, _ = started(STUBBORN)
    stop_sessions([session], grace=0.5)
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
        stop_sessions([earlier], grace=0.5)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
