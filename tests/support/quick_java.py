"""Pytest plugin: the JVMs of a run start quickly. They live for seconds, most of which load and compile classes.

They compile in one tier only, and share a class archive, which the first lane makes beside the first tests. A JVM that
finds no archive, or one of other classes, does without. What users get is measured by `make bench`, not here.
"""

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

ARCHIVE = "TIDEGATE_TESTS_CLASS_ARCHIVE"


def java_options() -> str:
    """For JVMs that get an environment of their own. That they cannot use the archive is not printed."""
    return f"-XX:TieredStopAtLevel=1 -XX:SharedArchiveFile={os.environ[ARCHIVE]} -Xlog:disable -Xlog:all=error:stderr"


@pytest.hookimpl(trylast=True)  # after the run has got its temporary directory
def pytest_configure(config: pytest.Config) -> None:
    """In the process that leads the run; its lanes, and all that these start, inherit it."""
    if hasattr(config, "workerinput"):
        return
    from tidegate.spark.session.java import find_java

    java = sha256(f"{find_java()} {sys.prefix}".encode()).hexdigest()[:16]
    cache = getattr(config, "cache", None)  # one may run without
    directory = cache.mkdir("spark-classes") if cache else Path(tempfile.mkdtemp(prefix="spark-classes-"))
    os.environ[ARCHIVE] = str(directory / f"{java}.jsa")
    os.environ["SPARK_SUBMIT_OPTS"] = java_options()
    os.environ["SPARK_LAUNCHER_OPTS"] = "-XX:TieredStopAtLevel=1"


def pytest_collection_finish(session: pytest.Session) -> None:
    lane = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    needed = any(item.get_closest_marker("spark") for item in session.items)
    if lane == "gw0" and needed and not Path(os.environ[ARCHIVE]).exists() and not session.config.option.collectonly:
        session.config.stash[_MAKER] = subprocess.Popen(
            [sys.executable, __file__], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )


_MAKER = pytest.StashKey["subprocess.Popen[bytes]"]()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A short run ends before the archive is made. The next long one makes it."""
    if maker := session.config.stash.get(_MAKER, None):
        with suppress(ProcessLookupError):
            os.killpg(maker.pid, 9)
        maker.wait()


def _make(archive: Path) -> None:
    """A JVM writes the classes it has loaded when it ends; so it takes checkpoints first, as tests do."""
    from orders import Shop, orders_pipeline
    from spark_checkpoints import Checkpoints
    from spark_sessions import stop_with_java

    from tidegate.spark.session.sessions import SparkSettings, open_session

    unfinished = archive.with_name(f"{archive.name}.{os.getpid()}")
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={unfinished}"
    session = open_session(SparkSettings.local(conf={"spark.log.level": "OFF"}))
    with tempfile.TemporaryDirectory() as directory:
        shop = Shop(Path(directory))
        checkpoints = Checkpoints(orders_pipeline(shop.home), session, shop.home)
        for _ in range(2):
            shop.deliver()
            checkpoints.take()
        checkpoints.rows("sink:seen")
    stop_with_java(session)
    unfinished.replace(archive)


if __name__ == "__main__":
    _make(Path(os.environ[ARCHIVE]))
