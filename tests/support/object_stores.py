"""Pytest plugin: an S3 server in a process of its own, and buckets whose objects are listed as they are."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

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


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server on a free loopback port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path_factory.mktemp("s3") / "log"
    with path.open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for_port(port, server, path)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture
def bucket(s3_server: str) -> Bucket:
    """A new one."""
    bucket = Bucket(f"bucket-{uuid.uuid4().hex}", s3_server)
    urllib.request.urlopen(urllib.request.Request(f"{s3_server}/{bucket.name}", method="PUT")).close()
    return bucket


@pytest.fixture
def reachable(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A new one that this process has the credentials for."""
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    return bucket


def wait_for_port(port: int, process: "subprocess.Popen[bytes]", log: Path, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-3000:]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(log.read_text()[-3000:])
