"""The local Airflow: closed to the network, its secrets its owner's, and stoppable by anybody who finds its home."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import airflow_home  # noqa: F401 - before anything imports Airflow
import psutil
import pytest
from public_directories import public_directory

from local_stack.airflow_environment import Directories, airflow_environment, postgres_connection, users_of
from local_stack.processes import start_session
from local_stack.secrets_file import Secrets, write_passwords
from local_stack.stack import LocalStack, StackError
from local_stack.supervisor import STEADY, BackOff

STARTER = """
import sys, time
from pathlib import Path
from local_stack.stack import LocalStack
home = Path(sys.argv[1])
LocalStack(home / "stack", dags=home / "dags", plugins=home / "plugins").start()
print("started", flush=True)
time.sleep(600)
"""
SECRETS = Secrets("fernet", "key", "jwt", 18080, "token", 0)


@pytest.fixture
def home():
    with public_directory("tidegate-stack-") as directory:
        for name in ("dags", "plugins"):
            directory.joinpath(name).mkdir()
        yield directory


@pytest.mark.airflow
@pytest.mark.long
def test_it_survives_its_starter_and_is_stopped_by_another_process(home):
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(home)], stdout=subprocess.PIPE, text=True)
    with starter:
        try:
            assert starter.stdout.readline() == "started\n"
        finally:
            starter.send_signal(signal.SIGKILL)
    stack = LocalStack(home / "stack", dags=home / "dags", plugins=home / "plugins")
    assert stack.is_supervised()
    with closing(stack.api()) as api:
        assert set(api.health().values()) == {"healthy"}
        assert api.call("GET", "/dags")["dags"] == []
    members = [process for session in stack.sessions() for process in session.members()]
    assert len(members) >= 4
    database = stack.database_url

    stack.stop()

    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in members)
    assert not stack.is_supervised()
    with pytest.raises(Exception, match="is not running"):
        _ = stack.database_url
    assert database not in "".join(path.read_text(errors="replace") for path in stack.logs.iterdir())


def test_a_stack_that_was_never_started_says_so(tmp_path):
    stack = LocalStack(tmp_path / "stack", dags=tmp_path, plugins=tmp_path)
    assert not stack.is_supervised()
    stack.stop()
    with pytest.raises(StackError, match="Start it with `make up`"):
        _ = stack.url


def environment(inherited, extra):
    directories = Directories(Path("/a/airflow"), Path("/a/dags"), Path("/a/plugins"), Path("/a/password.json"))
    url = "postgresql+psycopg2://tidegate:pw@127.0.0.1:5432/"
    return airflow_environment(inherited, directories, SECRETS, f"{url}airflow", f"{url}tidegate", 4, extra)


def test_another_airflow_in_the_environment_does_not_reach_this_one():
    theirs = {
        "AIRFLOW_HOME": "/theirs",
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW_CONN_X": "{}",
        "LANG": "C",
    }
    ours = environment(theirs, {"AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False"})
    assert ours["AIRFLOW_HOME"] == "/a/airflow"
    assert ours["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert "AIRFLOW_CONN_X" not in ours
    assert ours["LANG"] == "C"
    assert ours["AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE"] == "False"


def test_tasks_are_sent_to_the_port_the_server_listens_on():
    ours = environment({}, {})
    assert ours["AIRFLOW__API__PORT"] == "18080"
    assert ours["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert ours["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:18080/execution/"


def test_a_password_of_any_characters_reaches_the_connection():
    text = postgres_connection("postgresql+psycopg2://me:p%40ss%2Fw%C3%B6rd%25@127.0.0.1:5432/tidegate")
    assert json.loads(text) == {
        "conn_type": "postgres",
        "host": "127.0.0.1",
        "port": 5432,
        "login": "me",
        "password": "p@ss/wörd%",
        "schema": "tidegate",
    }


def test_what_ends_at_once_is_started_later_each_time_and_what_ran_for_long_at_once():
    back_off, now, waited = BackOff(), 1000.0, []
    for _ in range(8):
        waited.append(back_off.delay(now))
        now += waited[-1]
        back_off.began = now
    assert waited == [0, 1, 2, 5, 10, 30, 30, 30]
    assert back_off.delay(now + STEADY + 1) == 0


def test_a_log_is_its_owners_and_is_appended_to(tmp_path):
    log = tmp_path / "one.log"
    for _ in range(2):
        command = [sys.executable, "-c", "print('more')"]
        _, process = start_session("one", command, os.environ, log, tmp_path)
        process.wait(60)
    assert (log.read_text(), log.stat().st_mode & 0o777) == ("more\nmore\n", 0o600)
    permissions = {name: value for name, value in environment({}, {}).items() if name.endswith("_PERMISSIONS")}
    assert sorted(permissions.values()) == ["0o600", "0o700"]  # of what Airflow's tasks write by themselves


@pytest.mark.parametrize(
    ("given", "file", "names"),
    [
        ({}, "", ["admin"]),
        ({}, "[core]\nsimple_auth_manager_users = admin:admin, eve:viewer\nother = 50%\n", ["admin", "eve"]),
        ({"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "ada:op,bob:user"}, "[core]\nx = 1\n", ["ada", "bob"]),
    ],
    ids=["default", "file", "environment"],
)
def test_airflow_has_no_password_to_print(tmp_path, monkeypatch, capsys, given, file, names):
    """By Airflow's own auth manager: it prints a password that it makes."""
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    (tmp_path / "airflow.cfg").write_text(file)
    passwords = tmp_path / "password.json"
    write_passwords(passwords, ["admin"])
    kept = json.loads(passwords.read_text())["admin"]
    users = users_of(given, tmp_path / "airflow.cfg")
    assert users == names
    write_passwords(passwords, users)
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(passwords))
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ",".join(f"{name}:viewer" for name in names))
    SimpleAuthManager().init()
    assert "Password" not in capsys.readouterr().out
    assert json.loads(passwords.read_text())["admin"] == kept
    assert passwords.stat().st_mode & 0o777 == 0o600
