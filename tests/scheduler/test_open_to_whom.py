"""Who can reach what the stack runs: this machine, and its secrets the owner only."""

import stat

import psutil
import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.spark]


def listening(process):
    try:
        return [c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    except psutil.NoSuchProcess:
        return []


def test_servers_listen_on_this_machine_only_and_secrets_are_for_their_owner(world):
    members = [process for session in world.stack.sessions() for process in session.members()]
    assert len(members) >= 4
    assert {address for process in members for address in listening(process)} == {"127.0.0.1"}
    for name in ("password.json", "secrets.json"):
        assert stat.S_IMODE((world.stack.home / name).stat().st_mode) == 0o600, name
