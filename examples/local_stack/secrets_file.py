"""The secrets of a local stack's components: keys and tokens, and the ports that were free for them."""

import json
import os
import secrets
import socket
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets. `port` is that of Airflow's API server, `spark_port` that of the Spark Connect server; 0 if none was
    chosen yet.
    """

    fernet_key: str
    secret_key: str
    jwt_secret: str
    port: int
    spark_token: str
    spark_port: int


def read_secrets(file: Path) -> Secrets:
    return Secrets(**json.loads(file.read_text()))


def write_secrets(file: Path) -> None:
    """Write random secrets if there are none. Existing ones are kept, so that encrypted data stays readable; a port
    that is taken is replaced.
    """
    current = read_secrets(file) if file.exists() else _random()
    with ExitStack() as taken:  # both at once, or they might be the same
        port, spark_port = (_free_port(wanted, taken) for wanted in (current.port, current.spark_port))
    write_private(file, json.dumps(asdict(replace(current, port=port, spark_port=spark_port))))


def write_private(path: Path, content: str) -> None:
    """Write a file that only its owner can read, from the moment it exists."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(content)


@contextmanager
def open_log(path: Path) -> Iterator[BinaryIO]:
    """Open a log to append to. Only its owner can read it, because logs contain details that others must not see."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:
        yield log


def write_passwords(file: Path, users: Iterable[str]) -> None:
    """Write a random password for each user who has none. Airflow would otherwise create it and log it."""
    passwords = json.loads(file.read_text()) if file.exists() else {}
    if missing := [user for user in users if user not in passwords]:
        write_private(file, json.dumps(passwords | {user: secrets.token_urlsafe(12) for user in missing}))


def _random() -> Secrets:
    fernet = urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return Secrets(fernet, secrets.token_urlsafe(32), secrets.token_urlsafe(64), 0, secrets.token_urlsafe(32), 0)


def _free_port(wanted: int, taken: ExitStack) -> int:
    """Return the wanted port if it is free, so that a bookmark stays valid; any free port if it is taken or 0."""
    probe = taken.enter_context(socket.socket())
    try:
        probe.bind(("127.0.0.1", wanted))
    except OSError:
        probe.bind(("127.0.0.1", 0))
    return int(probe.getsockname()[1])
