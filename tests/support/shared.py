"""What the lanes of a run share: the first that needs it starts it, and the last that needed it ends it.

Who uses it is counted in a file beside the lanes' temporary directories, under a lock.
"""

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest


def place_of_all_lanes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def shared(place: Path, start: Callable[[], dict[str, Any]], end: Callable[[dict[str, Any]], None]) -> Iterator[Any]:
    """What `start` returned, JSON, in this lane or another one."""
    known = _change(place, +1, start, end)
    try:
        yield known
    finally:
        _change(place, -1, start, end)


def _change(
    place: Path, by: int, start: Callable[[], dict[str, Any]], end: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    with place.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        held = json.loads(file.read() or '{"users": 0, "known": null}')
        known: dict[str, Any] = start() if held["users"] == 0 else held["known"]
        users = held["users"] + by
        if users == 0:
            end(known)
        file.truncate(0)
        file.write(json.dumps({"users": users, "known": known}))
    return known


def end_process_group(known: dict[str, Any]) -> None:
    """That of `known["pid"]`, which may be the child of another lane, which does not wait for it."""
    leader = psutil.Process(known["pid"])
    os.killpg(leader.pid, signal.SIGKILL)
    while leader.is_running() and leader.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)
