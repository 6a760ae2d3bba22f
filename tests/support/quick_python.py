"""Pytest plugin: what stands for `python` in the command line of a program that is no more than a process to its test.

It has imported what commands import (`python_server.py`), which takes them more processor time than all else they do.
All lanes share it.
"""

import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from shared import end_process_group, place_of_all_lanes, shared

SUPPORT = Path(__file__).parent

#: What this lane has started, and perhaps another one ends.
_STARTED: list["subprocess.Popen[bytes]"] = []


@pytest.fixture(scope="session")
def quick_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The words in the place of `sys.executable`. See `python_server.py` for what a program does not notice, and do
    not use it where a start, an import or a kill is what is shown."""
    with shared(place_of_all_lanes(tmp_path_factory) / "python.json", _start, end_process_group) as known:
        yield [sys.executable, "-ISE", str(SUPPORT / "python_client.py"), known["address"]]


def _start() -> dict[str, Any]:
    """Who connects before it has imported everything waits for that."""
    home = tempfile.mkdtemp(prefix="python-")  # not pytest's: the name of a socket must be short
    address = os.path.join(home, "socket")
    with socket.socket(socket.AF_UNIX) as listener, open(f"{address}.log", "w") as log:
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
        server = subprocess.Popen(
            [sys.executable, str(SUPPORT / "python_server.py")],
            stdin=listener, stdout=log, stderr=log, cwd=home, env={**os.environ, "HOME": home}, start_new_session=True,
        )  # fmt: skip
    _STARTED.append(server)
    return {"address": address, "pid": server.pid}


#: Where all is imported already, nobody notices what a command forgets to import.
_COMMAND = """#!/bin/sh
# The first use of each command, by all lanes, is a process of its own.
if mkdir {begun}-"$1" 2>/dev/null; then exec {real} "$@"; fi
exec {quick} "$@"
"""


def make_environment(place: Path, python: Sequence[str]) -> None:
    """An environment like the one that the tests run in, whose `tidegate` is run by `quick_python`."""
    real = Path(sys.prefix)
    (place / "bin").mkdir(parents=True)
    for each in (*real.iterdir(), *(real / "bin").iterdir()):
        if each not in (real / "bin", real / "bin" / "tidegate"):
            (place / each.relative_to(real)).symlink_to(each)
    command = place / "bin" / "tidegate"
    program, begun = str(real / "bin" / "tidegate"), f"{python[-1]}-begun"
    text = _COMMAND.format(begun=shlex.quote(begun), real=shlex.quote(program), quick=shlex.join([*python, program]))
    command.write_text(text)
    command.chmod(0o755)
