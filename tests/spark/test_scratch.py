"""What a process keeps on local disk is private, and goes with it: at its end, or with the next start."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tidegate.spark.session import scratch as scratches

PROGRAM = """
import sys, time
from tidegate.spark.session.scratch import scratch
print(scratch(), flush=True)
sys.stdin.read()
"""
WITH_SPARK = """
import psutil, sys, time
from tidegate.spark.session.sessions import SparkSettings, open_session
session = open_session(SparkSettings(master="local[1]"))
assert session.range(3).repartition(2).mapInArrow(lambda batches: batches, "id long").count() == 3
print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test's own, for it and what it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def start(program: str = PROGRAM) -> tuple["subprocess.Popen[str]", str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]", how: signal.Signals | None = None) -> None:
    if how is not None:
        process.send_signal(how)
    process.communicate()


def test_it_is_private_and_removed_at_exit(temporary: Path) -> None:
    process, said = start()
    found = Path(said).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid) == (0o700, os.getuid())
    end(process)
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_goes_with_the_next_start_and_what_is_in_use_stays(temporary: Path) -> None:
    killed, left = start()
    end(killed, signal.SIGKILL)
    assert Path(left).exists()
    living, used = start()
    another, also_used = start()
    assert {str(path) for path in temporary.iterdir()} == {used, also_used}
    end(living)
    end(another)
    assert list(temporary.iterdir()) == []


def test_only_ones_own_directories_are_removed_and_never_through_links(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str, *files: str) -> Path:
        directory = temporary / name
        directory.mkdir()
        for file in files:
            directory.joinpath(file).touch()
        return directory

    abandoned = make("tidegate-scratch-a", "lock", "rows")
    theirs = make("precious", "lock", "rows")
    (temporary / "tidegate-scratch-link").symlink_to(theirs)
    make("tidegate-other", "lock")
    young, old = make("tidegate-scratch-young"), make("tidegate-scratch-old")
    os.utime(old, (0, 0))
    (temporary / "tidegate-scratch-file").touch()
    linked = make("tidegate-scratch-linked", "rows")
    (linked / "lock").symlink_to(theirs / "lock")

    with monkeypatch.context() as another_user:
        another_user.setattr(os, "getuid", lambda: abandoned.stat().st_uid + 1)
        scratches.remove_abandoned()
    assert abandoned.exists()
    scratches.remove_abandoned()
    assert not abandoned.exists()
    assert not old.exists()
    assert {path.name for path in temporary.iterdir()} == {
        "precious", "tidegate-scratch-link", "tidegate-other", young.name, "tidegate-scratch-file", linked.name
    }  # fmt: skip
    assert {path.name for path in theirs.iterdir()} == {"lock", "rows"}


@pytest.mark.long
@pytest.mark.spark
def test_of_a_driver_that_was_killed_nothing_stays_on_disk_after_the_next_start(temporary: Path) -> None:
    driver, pids = start(WITH_SPARK)
    below = [psutil.Process(int(pid)) for pid in pids.split()]
    assert "java" in {process.name() for process in below}
    end(driver, signal.SIGKILL)
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive
    end(start()[0])
    assert list(temporary.iterdir()) == []


@pytest.mark.spark
def test_a_local_session_listens_on_loopback_only_to_those_who_know_its_secret(spark: SparkSession) -> None:
    jvm = spark._jvm  # type: ignore[attr-defined]
    spark.range(3).mapInArrow(lambda batches: batches, "id long").count()  # so that there is a Python worker
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    java = [process for process in processes if process.name() == "java"]
    listening = {
        connection.laddr.ip.removeprefix("::ffff:")
        for process in java
        for connection in process.net_connections("inet")
        if connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
    }
    assert listening == {"127.0.0.1"}
    security = jvm.org.apache.spark.SparkEnv.get().securityManager()
    assert security.isAuthenticationEnabled()
    secret = security.getSecretKey()
    assert len(secret) >= 32
    for process in processes:
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            assert secret not in " ".join(process.cmdline())
            assert secret not in " ".join(process.environ().values())
    assert secret not in str(spark.sparkContext.getConf().getAll())


@pytest.mark.spark
def test_what_a_local_session_writes_lies_where_only_its_user_enters(spark: SparkSession) -> None:
    private = scratches.scratch()
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    jvm = spark._jvm  # type: ignore[attr-defined]
    spark.range(3).mapInArrow(lambda batches: batches, "id long").count()
    blocks = jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
    written = [jvm.java.lang.System.getProperty("java.io.tmpdir"), *(str(block) for block in blocks)]
    jvm_process = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    sockets = [
        connection.laddr
        for process in [psutil.Process(), jvm_process, *jvm_process.children(recursive=True)]
        for connection in process.net_connections("unix")
        if str(connection.laddr).endswith(".sock")
    ]
    for path in [*written, *sockets]:
        assert Path(path).is_relative_to(private), path


def test_a_process_that_forks_does_not_take_the_directory_along(temporary: Path) -> None:
    """The child makes one of its own, and its end does not remove its parent's."""
    program = """
import os, sys
from tidegate.spark.session.scratch import scratch
mine = scratch()
if (child := os.fork()) == 0:
    assert scratch() != mine
    sys.exit(0)
os.waitpid(child, 0)
print(mine.exists(), [path.name for path in mine.parent.iterdir()] == [mine.name], flush=True)
sys.stdin.read()
"""
    process, said = start(program)
    assert said == "True True"
    end(process)
    assert list(temporary.iterdir()) == []
