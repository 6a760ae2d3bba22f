"""The same pipeline on a real Spark Connect server whose executors have nothing of ours, and the loss of any Spark."""

import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyspark
import pytest
from quick_java import java_options

from tidegate.spark.session.java import find_java

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent
NEEDED = ("pyspark", "py4j", "pyarrow", "pyarrow.libs", "numpy", "numpy.libs", "pandas", "pandas.libs")
ALSO_NEEDED = ("dateutil", "pytz", "tzdata", "six.py", "google", "grpc", "googleapis_common_protos", "zstandard")


def bare_python(directory: Path) -> Path:
    """An interpreter that has what Spark needs and not this project: no site-packages, so no editable install."""
    site = Path(sysconfig.get_paths()["purelib"])
    packages = directory / "packages"
    packages.mkdir()
    for name in (*NEEDED, *ALSO_NEEDED):
        if (site / name).exists():
            (packages / name).symlink_to(site / name)
    program = directory / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec {sys.executable} -S "$@"\n')
    program.chmod(0o755)
    return program


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    address: str

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own group, see start_new_session
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("connect")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--name", "connect"),
        *("--master", "local[2]", "--driver-memory", "1g"),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        *("--conf", "spark.python.unix.domain.socket.enabled=true", "--conf", f"spark.local.dir={directory}"),
        *("--driver-java-options", f"-Djava.io.tmpdir={directory}"),  # it is killed, and leaves what it has there
        "spark-internal",
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "JAVA_HOME": str(find_java()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(bare_python(directory)),
        "SPARK_SUBMIT_OPTS": java_options(),
        "HOME": str(directory),
    }
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=directory, stdout=log, stderr=log, start_new_session=True
        )
    server = Server(process, f"sc://127.0.0.1:{port}")
    try:
        wait_for_port(port, process, directory / "log")
        yield server
    finally:
        server.kill()


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])


def start_client(address: str, root: Path) -> subprocess.Popen[str]:
    places = [str(HERE.parent / "support"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    environment.pop("SPARK_REMOTE", None)
    return subprocess.Popen(
        [sys.executable, str(HERE / "lost_spark_client.py"), address, str(root)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def told(output: IO[str] | None, name: str) -> Any:
    """The next facts that include `name`."""
    assert output is not None
    for line in output:
        if line.startswith("{") and name in (facts := json.loads(line)):
            return facts
    raise AssertionError(f"the client ended without telling {name}")


EXPECTED = [[1, 1, 10], [2, 3, 55]]


@pytest.mark.long
def test_a_pipeline_runs_on_connect_and_survives_the_loss_of_the_server(server: Server, tmp_path: Path) -> None:
    client = start_client(server.address, tmp_path)
    try:
        assert told(client.stdout, "installed") == {"installed": ""}
        assert ".zip" in told(client.stdout, "shipped")["shipped"]
        texts = told(client.stdout, "texts")["texts"]
        assert texts["rows"] == [[1, 'a "b"\nc'], [2, ""]]
        assert "latin.csv has bytes that are not text: 0xE9 at byte 10, line 2" in texts["errors"][0]
        assert "bad.csv has a row that does not fit the source's schema: line 2 (" in texts["errors"][1]
        facts = told(client.stdout, "state")
        assert facts["state"] == EXPECTED
        assert facts["read"] == EXPECTED
        assert facts["staged"] == EXPECTED
        assert facts["labels"] == [[1, "10 so far"], [2, "55 so far"]]
        assert len(facts["ids"]) == 1
        assert facts["again"] == facts["ids"]
        assert "reads of 'rows' is not deterministic, because of current_timestamp(), rand()" in facts["refusal"]
        told(client.stdout, "waiting")
        server.kill()
        assert client.stdin is not None
        client.stdin.write("go\n")
        client.stdin.flush()
        lost = told(client.stdout, "error")
        assert lost["error"] == "SparkUnavailableError"
        assert "repeating the snapshot step resumes this checkpoint on the same input" in lost["message"]
    finally:
        client.kill()
        client.communicate()


def test_a_connect_server_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        client = start_client(f"sc://127.0.0.1:{taken.getsockname()[1]}", tmp_path)
        try:
            refused = told(client.stdout, "error")
            assert refused["error"] == "SparkUnavailableError"
            assert "The Spark Connect server at sc://127.0.0.1" in refused["message"]
        finally:
            client.kill()
            client.communicate()


@pytest.mark.long
def test_a_killed_jvm_is_reported_as_lost_spark(tmp_path: Path) -> None:
    client = start_client("local[2]", tmp_path)
    try:
        assert told(client.stdout, "state")["state"] == EXPECTED
        lost = told(client.stdout, "error")
        assert lost["error"] == "SparkUnavailableError"
        assert "repeating the snapshot step resumes this checkpoint on the same input" in lost["message"]
    finally:
        client.kill()
        client.communicate()
