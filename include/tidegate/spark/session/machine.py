"""Resources that this machine lacks for Spark's JVM. Checked before the JVM starts, and again if it did not start or
has died.

A JVM that cannot open a file or start a thread dies with a stack trace in the error output. This module names the
limits behind that, with numbers, where the machine reports them.
"""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.protocol.facts.errors import ConfigurationError

#: Open files. An idle session has 330, most of them Spark's own libraries.
NEEDED_FILES = 400
#: The limit that a snapshot may need. This process does not raise it further, because `select` takes no file above
#: 1024.
_WANTED_FILES = 1024
_MIB = 1024 * 1024
#: The JVM reserves far more address space than it uses: heap, class space and code.
_ADDRESS_SPACE = 4096 * _MIB
_MEMORY = 1024 * _MIB
_DISK = 64 * _MIB
#: An idle session on two cores has 75 threads, and each counts as a process.
_PROCESSES = 200
#: The maximum seconds that a JVM takes to end after it has closed its connections.
_ENDING = 5.0


def raise_open_files() -> None:
    """Raise the limit of open files as far as allowed, as Java does for itself.

    Raise `ConfigurationError` if that is not enough for Spark to start.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(_WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if wanted < NEEDED_FILES:
        raise ConfigurationError(
            f"This process may open {wanted} files (`ulimit -n`), but Spark's JVM needs {NEEDED_FILES} to start. "
            f"Nothing was run. Raise the limit, also the hard one: `ulimit -n {_WANTED_FILES}` in the shell that "
            "starts it, LimitNOFILE of a systemd unit, or --ulimit nofile of a container."
        )


def shortages() -> str:
    """Return the resources that are short on this machine, as sentences; empty if none is."""
    return "".join(f"{sentence} " for sentence in _shortages())


def jvm_end() -> str:
    """Return how the JVM of this process's own session ended, and the resources that are short, as sentences; empty if
    unknown."""
    from pyspark import SparkContext

    process: Any = getattr(getattr(SparkContext, "_gateway", None), "proc", None)
    if process is None:
        return ""
    try:
        ended = process.wait(_ENDING)  # its sockets are closed a moment before the process ends
    except subprocess.TimeoutExpired:
        return ""
    if ended == -signal.SIGKILL:
        return f"Its JVM was killed (signal 9), which the system also does when memory runs out. {shortages()}"
    how = f"by signal {-ended}" if ended < 0 else f"with code {ended}"
    return f"Its JVM ended {how}. {shortages()}"


def _shortages() -> Iterator[str]:
    files, space, processes = (
        resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_NPROC)
    )
    if files != resource.RLIM_INFINITY and files < _WANTED_FILES:
        yield f"This process may open only {files} files: raise `ulimit -n` to {_WANTED_FILES}."
    if space != resource.RLIM_INFINITY and space < _ADDRESS_SPACE:
        yield f"This process may have only {space // _MIB} MiB of address space: lift `ulimit -v`."
    if os.getuid() != 0 and processes != resource.RLIM_INFINITY and processes < _PROCESSES:
        yield f"This user may have only {processes} processes and threads: raise `ulimit -u`."
    if (memory := _available_memory()) is not None and memory < _MEMORY:
        yield f"Only {memory // _MIB} MiB of memory are available: end something, or set spark.driver.memory lower."
    directory = tempfile.gettempdir()
    if (free := shutil.disk_usage(directory).free) < _DISK:
        yield f"Only {free // _MIB} MiB are free in {directory}: make room, or set TMPDIR."


def _available_memory() -> int | None:
    """Return the available bytes of the machine, or of the container if that has less; None if the system does not
    report them."""
    available = []
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            available.append(int(line.split()[1]) * 1024)
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        available.append(int(limit) - int(used))
    return min(available, default=None)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
