"""The real app over HTTP, mounted as Airflow mounts it, on a port of its own; it can be stopped and started again."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

Asgi = Callable[[Any, Any, Any], Awaitable[None]]

#: What Airflow 3.3 lets a page in its frame do.
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"


class PageServer:
    """`asked` counts requests by path. `/host?path=…` is a page that frames a path, as Airflow's does.
    With `holds_events` it is a proxy that gathers an answer before it hands it on."""

    def __init__(self, app: Asgi, prefix: str = "/tidegate") -> None:
        root = FastAPI()
        root.add_api_route("/host", _host)
        root.add_api_route("/dags/{rest:path}", lambda rest: HTMLResponse(f"<h1>Airflow {len(rest)}</h1>"))
        root.mount(prefix, self._counted(app))
        self._root = root
        self.asked: list[str] = []
        self.holds_events = False
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.url = self.address + prefix

    def _counted(self, app: Asgi) -> Asgi:
        async def counted(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self.asked.append(scope["path"])
                if self.holds_events and scope["path"].endswith("/events"):
                    await _hold(send)
            await app(scope, receive, send)

        return counted

    def start(self) -> None:
        config = uvicorn.Config(
            self._root, host="127.0.0.1", port=self.port, log_level="warning", lifespan="off", ws="none",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 30
        while not self._server.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()


async def _hold(send: Any) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await asyncio.sleep(60)


def _host(path: str, theme: str = "light") -> HTMLResponse:
    """Only the test gives the path."""
    return HTMLResponse(
        f'<!DOCTYPE html><html class="{theme}"><title>Airflow</title>'
        f'<iframe sandbox="{SANDBOX}" src="{path}" width="1000" height="700"></iframe>'
    )
