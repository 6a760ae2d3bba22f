"""`tidegate doubts` as a person and as a monitor asks."""

import json

import pytest
from commands import CommandHere, environment_of
from several_tables import SeveralTables

from tidegate.cli.exit_codes import ExitCode


@pytest.fixture
def environment(tmp_path, running_url, monkeypatch):
    for name, value in environment_of(tmp_path, running_url).items():
        monkeypatch.setenv(name, value)
    return environment_of(tmp_path, running_url)


def test_a_monitor_is_told_of_what_lasts(store, tmp_path, environment):
    shop, here = SeveralTables(store, tmp_path), CommandHere(tmp_path, environment)
    shop.take()
    ended = here("doubts", "shop")
    assert ended.stdout == "Nothing is in doubt. Every table shows the latest completed checkpoint.\n"
    assert ended.returncode == ExitCode.OK
    shop.finalize()
    ended = here("doubts", "shop", "-o", "json")
    (doubt,) = json.loads(ended.stdout)
    assert (ended.returncode, doubt["checkpoint_id"], doubt["reason"]) == (ExitCode.OK, 2, "NOT_BEGUN")
    ended = here("doubts", "--longer-than", "0 s")
    assert ended.returncode == ExitCode.IN_DOUBT
    assert "Checkpoint 2 of shop, completed" in ended.stdout
    assert "What to do" in ended.stdout
    shop.coordinator.notify(2)
    assert here("doubts", "--longer-than", "0 s").returncode == ExitCode.OK


def test_what_was_not_meant_is_refused(store, tmp_path, environment):
    SeveralTables(store, tmp_path).take()
    here = CommandHere(tmp_path, environment)
    assert here("doubts", "shpo").returncode == ExitCode.NOT_FOUND
    assert here("doubts", "shop", "--longer-than", "long").returncode == ExitCode.USAGE
