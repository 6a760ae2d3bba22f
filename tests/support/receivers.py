"""A real HTTP server on the loopback that writes down what it is sent, and answers as a test says."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """`answer` is given each request and returns a status, or raises; `body` goes with it. `location` is where
    redirects lead. With `slow` the answer comes byte by byte, that many seconds apart."""

    answer: Callable[[Request], int] = lambda request: 204
    requests: list[Request] = field(default_factory=list)
    body: bytes = b""
    location: str | None = None
    slow: float = 0.0
    url: str = ""


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, dict(self.headers), body)
            receiver.requests.append(request)
            if receiver.slow:
                for byte in b"HTTP/1.1 204 No Content\r\nX-Padding: " + b"x" * 1000:
                    self.wfile.write(bytes([byte]))
                    time.sleep(receiver.slow)
            self.send_response(receiver.answer(request))
            if receiver.location is not None:
                self.send_header("Location", receiver.location)
            self.send_header("Content-Length", str(len(receiver.body)))
            self.end_headers()
            self.wfile.write(receiver.body)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that has hung up is no news."""

    server = Quiet(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
