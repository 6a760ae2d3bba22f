"""What a bucket does not give, or take, is said as what happened, what is safe and what to do: without secrets, the
words of a library, or the stack of a task."""

import os
import re
import signal
import socket
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pyarrow as pa
import pytest
from object_stores import start_server

from tidegate import FileSource, IcebergSink
from tidegate.iceberg.data_files import footers
from tidegate.ports import SourceContext, StageContext, StateHandle
from tidegate.protocol.facts.errors import CheckpointError, PipelineDefinitionError
from tidegate.protocol.facts.records import HandleKind
from tidegate.sources.parquet_by_arrow import ParquetPlan
from tidegate.sources.parts import Part
from tidegate.sources.quotes import Rules
from tidegate.sources.read_errors import carried_in
from tidegate.sources.reading import ReadPlan, TextFormat
from tidegate.state.storage import ArrowCheckpointStorage

SECRETS = {"AWS_ACCESS_KEY_ID": "AKIDGEHEIM", "AWS_SECRET_ACCESS_KEY": "geheim"}
V = pa.schema([("v", pa.int64())])


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a bucket, which knows no keys."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("strict") / "log"
    server = start_server(port, log, INITIAL_NO_AUTH_ACTION_COUNT="1")
    urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/lake", method="PUT")).close()
    yield f"http://127.0.0.1:{port}"
    os.killpg(server.pid, signal.SIGKILL)
    server.wait()


class _Refusing(BaseHTTPRequestHandler):
    """What S3 answers to a request that nobody has signed."""

    def do_GET(self) -> None:
        assert "Authorization" not in self.headers
        said = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(said)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, *said: object) -> None:
        """Not into the tests' output."""


@pytest.fixture(params=["no bucket", "no credentials", "wrong credentials", "away"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str, str]]:
    """A bucket that cannot be used, why, and what helps."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    server: ThreadingHTTPServer | None = None
    match request.param:
        case "no bucket":
            request.getfixturevalue("s3_server")
            found = (f"s3://none-{uuid4().hex}", "no such bucket|does not exist", "[Cc]reate")
        case "no credentials":
            for name in SECRETS:
                monkeypatch.delenv(name)
            for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
                monkeypatch.setenv(name, "/dev/null")
            server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
            Thread(target=server.serve_forever, daemon=True).start()
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
            found = (f"s3://denied-{uuid4().hex}", "denies access, because there are no credentials", "Check the keys")
        case "wrong credentials":
            monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("strict"))
            found = ("s3://lake", "does not accept the credentials|denies access", "(Correct|Check) the keys")
        case _:
            monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
            found = (f"s3://away-{uuid4().hex}", "the store cannot be reached", "Check that it runs")
    yield found
    if server is not None:
        server.shutdown()
        server.server_close()


def said(error: BaseException) -> str:
    carried = carried_in(str(error))  # out of a Spark task
    assert carried is not None or isinstance(error, CheckpointError), repr(error)
    return str(carried.error if carried is not None else error)


def check(text: str, store: tuple[str, str, str]) -> None:
    _, why, advice = store
    assert re.search(why, text), text
    assert re.search(rf"{advice}.*(run again|retry|repeat)", text), text
    assert re.search(r"[Nn]othing|no effect", text), text
    for word in (*SECRETS.values(), "AWS Error", "curlCode", "Request ID", "Traceback", "\tat ", "OSError", "Errno"):
        assert word not in text


def handle() -> StateHandle:
    return StateHandle("data/chk-1/x.parquet", HandleKind.STAGED, 1, 9, "0" * 64, 1)


def poll(url: str, home: Path) -> None:
    context = SourceContext(ArrowCheckpointStorage(str(home)), 1, "p")
    FileSource(f"{url}/in", schema="v BIGINT").poll(0, None, context)


TEXT = TextFormat("csv", "utf-8", Rules(), multiline=False, quarantine=False)
ONE = pa.record_batch({"id": pa.array([0], pa.int64())})
BINS = ((Part("x.csv"),),)

USES: dict[str, Callable[[str, Path], object]] = {
    "poll": poll,
    "text": lambda url, _: list(ReadPlan(f"{url}/in", BINS, TEXT).run([ONE])),
    "parquet": lambda url, _: list(ParquetPlan(f"{url}/in", BINS, V, False, "").run([ONE])),
    "write": lambda url, _: ArrowCheckpointStorage(f"{url}/state").write("p/x", b"x"),
    "read": lambda url, _: ArrowCheckpointStorage(f"{url}/state").read("p/x"),
    "footers": lambda url, _: footers(f"{url}/lake/db/t", [handle()]),
}


@pytest.mark.parametrize("use", list(USES))
def test_what_cannot_be_used_is_said(use: str, store: tuple[str, str, str], tmp_path: Path) -> None:
    if use in ("text", "parquet") and "no such bucket" in store[1]:  # the poll before has said that
        store = (store[0], "was gone before its rows were read", "Put it back")
    with pytest.raises((CheckpointError, RuntimeError)) as raised:
        USES[use](store[0], tmp_path)
    check(said(raised.value), store)


def test_a_sink_says_what_is_safe(store: tuple[str, str, str], lake: object) -> None:
    with pytest.raises(CheckpointError) as raised:
        IcebergSink("db.t", warehouse=f"{store[0]}/lake").writer().stage(
            pa.table({"v": [1]}), StageContext(1, 0, 1, "u")
        )
    check(str(raised.value), store)
    assert "none of them became visible" in str(raised.value)


@pytest.mark.parametrize("url", ["s3://AKID:geheim@lake/in", "s3://lake/in?secret_key=geheim"])
def test_credentials_are_no_part_of_a_url(url: str) -> None:
    for made in (lambda: FileSource(url, schema="v INT"), lambda: IcebergSink("db.t", warehouse=url)):
        with pytest.raises(PipelineDefinitionError, match="credentials come from the environment") as raised:
            made()
        assert "geheim" not in str(raised.value)
