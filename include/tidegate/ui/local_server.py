"""A local server for the pages without Airflow, for its owner."""

import socket
from collections.abc import Callable
from secrets import token_urlsafe

import uvicorn

from tidegate.reading.readings import Readings
from tidegate.ui.app import create_app
from tidegate.ui.one_user import OneUser, at_the_door


def serve(readings: Readings, port: int, announce: Callable[[str], None]) -> None:
    """Serve until interrupted. `announce` is given the address as soon as the server answers; port 0 chooses a free
    one.

    Raises:
        OSError: If the port is taken.
    """
    token = token_urlsafe(32)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
        port = int(listening.getsockname()[1])
        user = OneUser(token, port)
        app = at_the_door(create_app(open_readings=lambda: readings, users=user), user)
        config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=2)
        announce(f"http://127.0.0.1:{port}/?token={token}")
        uvicorn.Server(config).run(sockets=[listening])
