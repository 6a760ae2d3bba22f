"""The worked example of a source passes the suite, on a server that has what has arrived."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from own_connectors.pages_source import PagesSource
from tidegate.testing import SourceSuite

LIMIT = 1000


class Pages(BaseHTTPRequestHandler):
    rows: dict[str, list[dict[str, Any]]]

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        after, limit = (int(parse_qs(asked.query)[name][0]) for name in ("after", "limit"))
        there = self.rows.get(asked.path, [])
        begin = next((at for at, row in enumerate(there) if row["id"] > after), len(there))
        content = json.dumps(there[begin : begin + limit]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        return None


class TestPagesSource(SourceSuite[PagesSource]):
    columns: ClassVar = {"id": "BIGINT", "v": "STRING"}
    nulls = False
    many = 5000

    @pytest.fixture(autouse=True)
    def server(self) -> Iterator[None]:
        handler = type("Handler", (Pages,), {"rows": {}})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            self.rows, self.port = handler.rows, server.server_port
            yield
            server.shutdown()
            thread.join()

    def row(self, number: int) -> dict[str, Any]:
        return {"id": number, "v": f"row {number}"}

    def source(self, directory: Path, columns: str) -> PagesSource:
        return PagesSource(f"http://127.0.0.1:{self.port}/{directory.name}", columns, LIMIT)

    def arrive(self, directory: Path, rows: pa.Table) -> None:
        self.rows.setdefault(f"/{directory.name}", []).extend(rows.to_pylist())
