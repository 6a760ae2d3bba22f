"""Pytest plugin: an S3 server in a process of its own, and buckets whose objects are listed as they are."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from shared import end_process_group, place_of_all_lanes, shared

S3 = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(frozen=True)
class Bucket:
    """A bucket and what a process needs to reach it."""

    name: str
    endpoint: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/checkpoints"

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def objects(self) -> dict[str, int]:
        """Every object's key, below the storage's root, and its bytes. Not by way of a file system,
        which hides some."""
        with urllib.request.urlopen(f"{self.endpoint}/{self.name}?list-type=2&max-keys=1000", timeout=60) as answer:
            found = ElementTree.fromstring(answer.read())
        assert found.findtext(f"{S3}IsTruncated") == "false"
        return {
            unquote(str(each.findtext(f"{S3}Key"))).removeprefix("checkpoints/"): int(str(each.findtext(f"{S3}Size")))
            for each in found.iter(f"{S3}Contents")
        }


def pytest_configure(config: pytest.Config) -> None:
    """Whatever the run starts, Spark and its tasks included, reaches the run's own server, and no other."""
    if not hasattr(config, "workerinput"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
        os.environ.update(Bucket("", endpoint).environment)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server on a loopback port, which all lanes share."""
    base, endpoint = place_of_all_lanes(tmp_path_factory), os.environ["AWS_ENDPOINT_URL"]

    def start() -> dict[str, Any]:
        return {"pid": start_server(urlsplit(endpoint).port or 0, base / "s3.log").pid}

    with shared(base / "s3.json", start, end_process_group):
        yield endpoint
    for server in _STARTED:
        server.poll()  # nothing of one that has ended is left


@pytest.fixture
def bucket(s3_server: str) -> Bucket:
    """A new one."""
    bucket = Bucket(f"bucket-{uuid.uuid4().hex}", s3_server)
    urllib.request.urlopen(urllib.request.Request(f"{s3_server}/{bucket.name}", method="PUT")).close()
    return bucket


#: What this lane has started, and perhaps another one ends.
_STARTED: list["subprocess.Popen[bytes]"] = []


def start_server(port: int, path: Path, **environment: str) -> "subprocess.Popen[bytes]":
    """In a process group of its own."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with path.open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **environment}, start_new_session=True
        )
    _STARTED.append(server)
    wait_for_port(port, server, path)
    return server


def wait_for_port(port: int, process: "subprocess.Popen[bytes]", log: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(log.read_text()[-3000:])
