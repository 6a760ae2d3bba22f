"""Pytest plugin: a standalone Spark cluster from the installed pyspark, a master and two workers on loopback."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from quick_java import java_options

from tidegate.spark.session.java import find_java


@dataclass
class Cluster:
    """Two workers of one core; executors have 512 MiB and an account without a home of its own."""

    home: Path
    master: str = ""
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def cache_home(self) -> Path:
        return self.home / "cache-home"

    def driver(self, executors: Mapping[str, str]) -> dict[str, str]:
        """The environment of a driver whose executors get `executors` as theirs."""
        directory = self.home / f"conf-{time.monotonic_ns()}"
        directory.mkdir()
        settings = {
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.executor.extraJavaOptions": java_options(),
            **{f"spark.executorEnv.{name}": value for name, value in executors.items()},
        }
        text = "".join(f"{key} {value}\n" for key, value in settings.items())
        (directory / "spark-defaults.conf").write_text(text)
        return {
            "TIDEGATE_SPARK_MASTER": self.master,
            "SPARK_CONF_DIR": str(directory),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def executors(self) -> list[int]:
        """The processes of executors, which belong to the groups of their workers."""
        groups = {process.pid for process in self.processes}
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdecimal() or os.getpgid(int(entry.name)) not in groups:
                    continue
                if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (ProcessLookupError, FileNotFoundError):
                continue
        return sorted(found)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests of a run."""
    import pyspark

    program = str(Path(pyspark.__path__[0]) / "bin" / "spark-class")
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    port, page = free_port(), free_port()
    cluster.master = f"spark://127.0.0.1:{port}"
    loopback = ["--host", "127.0.0.1"]
    master = ["org.apache.spark.deploy.master.Master", *loopback, "--port", str(port), "--webui-port", str(page)]
    worker = ["org.apache.spark.deploy.worker.Worker", *loopback, "--cores", "1", "--memory", "600m"]
    worker += ["--webui-port", "0", "--work-dir", str(cluster.home / "work"), cluster.master]
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(find_java()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        "PYSPARK_PYTHON": sys.executable,
        "HOME": "/nonexistent",
        "XDG_CACHE_HOME": str(cluster.cache_home),
        "SPARK_NO_DAEMONIZE": "1",
    }
    with ExitStack() as stack:
        for command in (master, worker, worker):
            log = stack.enter_context((cluster.home / f"log-{len(cluster.processes)}").open("wb"))
            process = subprocess.Popen(
                [program, *command], stdout=log, stderr=log, env=environment, cwd=cluster.home, start_new_session=True
            )
            cluster.processes.append(process)
            stack.callback(_end, process)
        _wait_for_workers(cluster, page)
        yield cluster


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The group: executors are started by workers and belong to theirs."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _wait_for_workers(cluster: Cluster, page: int) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        logs = "\n".join(path.read_text()[-2000:] for path in sorted(cluster.home.glob("log-*")))
        assert all(process.poll() is None for process in cluster.processes), logs
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
                if json.load(answer)["aliveworkers"] == 2:
                    return
        except (OSError, ValueError):  # nobody listens yet, or serves only pages
            pass
        time.sleep(0.2)
    raise TimeoutError(logs)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
