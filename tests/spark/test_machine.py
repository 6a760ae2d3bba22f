"""What is short for Spark's JVM is named, with the number and what to do. Real limits in real processes."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

OPEN = """
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.spark.session.sessions import SparkSettings, open_session
try:
    open_session(SparkSettings(master="local[1]"))
except CheckpointError as error:
    print(error)
"""
LIMITS = """
import resource
from tidegate.spark.session.machine import raise_open_files
raise_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
ARGUMENTS = """
from tidegate.spark.session.sessions import SparkSettings, open_session
session = open_session(SparkSettings(master="local[1]", brief={brief}, conf={conf}))
assert session.range(3).count() == 3
beans = session._jvm.java.lang.management.ManagementFactory
print(*(each for each in beans.getRuntimeMXBean().getInputArguments() if each.startswith("-XX:Tier")))
"""
FROM_OUTSIDE = """
import os
from pathlib import Path
from tidegate.spark.session.sessions import SparkSettings, open_session
Path("spark-defaults.conf").write_text("spark.shop.file 1\\nspark.sql.session.timeZone Asia/Tokyo")
os.environ |= {"SPARK_CONF_DIR": os.getcwd(), "PYSPARK_SUBMIT_ARGS": "--conf spark.shop.args=2 pyspark-shell"}
session = open_session(SparkSettings(master="local[1]"))
found = session.sparkContext.getConf()
print(found.get("spark.shop.file"), found.get("spark.shop.args"), session.conf.get("spark.sql.session.timeZone"))
"""
KILLED = """
import psutil
from tidegate.spark.driver.spark_errors import as_checkpoint_error
from tidegate.spark.session.sessions import SparkSettings, open_session
session = open_session(SparkSettings(master="local[1]"))
next(child for child in psutil.Process().children() if child.name() == "java").kill()
try:
    session.range(3).count()
except Exception as error:
    print(as_checkpoint_error(error, "operator sum"))
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., str]:
    """Runs a program where the crash report of a JVM disturbs nobody, and gives what it prints."""

    def ran(program: str, limits: str = "true") -> str:
        command = ["bash", "-c", f'{limits}; exec "$0" -c "$1"', sys.executable, program]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr[-2000:]
        return ended.stdout.strip()

    return ran


def test_too_few_open_files_are_named_before_anything_is_started(run: Callable[..., str]) -> None:
    said = run(OPEN, "ulimit -n 256")
    assert said.startswith("This process may open 256 files (`ulimit -n`), but Spark's JVM needs")
    assert "Nothing was run" in said
    assert "`ulimit -n 1024`" in said


@pytest.mark.parametrize(
    ("limits", "then"),
    [
        ("ulimit -Sn 256; ulimit -Hn 5000", "1024 5000"),
        ("ulimit -Sn 256; ulimit -Hn 700", "700 700"),
        ("ulimit -Sn 3000; ulimit -Hn 5000", "3000 5000"),
    ],
)
def test_a_limit_that_may_be_raised_is_raised_and_never_lowered(
    limits: str, then: str, run: Callable[..., str]
) -> None:
    assert run(LIMITS, limits) == then


@pytest.mark.spark
def test_too_little_address_space_is_named_when_the_jvm_does_not_start(run: Callable[..., str]) -> None:
    said = run(OPEN, "ulimit -v 3000000")
    assert "Spark could not be started on local[1]" in said
    assert "only 2929 MiB of address space: lift `ulimit -v`" in said


@pytest.mark.spark
def test_a_jvm_that_lives_briefly_does_without_the_optimising_compiler_unless_it_is_asked_for(
    run: Callable[..., str],
) -> None:
    asked = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}
    said = run(ARGUMENTS.format(brief=True, conf=asked)).split()
    assert (said[0], said[-1]) == ("-XX:TieredStopAtLevel=1", "-XX:TieredStopAtLevel=4"), "the last one counts"
    assert "-XX:Tier4InvocationThreshold=" in run(ARGUMENTS.format(brief=False, conf={}))


@pytest.mark.spark
def test_settings_come_from_where_spark_submit_finds_them(run: Callable[..., str]) -> None:
    assert run(FROM_OUTSIDE) == "1 2 UTC"


@pytest.mark.long
@pytest.mark.spark
def test_a_jvm_that_was_killed_is_said_to_have_been(run: Callable[..., str]) -> None:
    said = run(KILLED)
    assert "Spark was lost while it ran operator sum" in said
    assert "Its JVM was killed (signal 9), which the system also does when memory runs out." in said
    assert "repeating the snapshot step resumes" in said
