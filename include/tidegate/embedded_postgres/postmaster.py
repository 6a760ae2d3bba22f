"""The server's process, its port and its log."""

import os
import socket
from pathlib import Path


def remove_stale_pid_file(file: Path) -> None:
    """Remove the pid file of a killed server whose process id now belongs to another program, because PostgreSQL would
    refuse to start."""
    try:
        pid = int(file.read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return
    if not is_postgres(pid):
        file.unlink(missing_ok=True)


def is_postgres(pid: int) -> bool:
    """Whether a process is a running PostgreSQL server."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        # "PID (NAME) STATE ..."; Z is a dead process that its parent has not collected.
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition(" (")[2].rpartition(") ")
    except OSError:
        return not Path("/proc/self").exists()  # where there is no /proc, the process id must be enough
    return name == "postgres" and not rest.startswith("Z")


def free_port(remembered: Path | None) -> int:
    """Return the remembered port if it is free, else any free port of 127.0.0.1."""
    if remembered is not None and remembered.exists():
        port = int(remembered.read_text())
        if not in_use(port):
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        return int(port)


def in_use(port: int) -> bool:
    """Whether a port of 127.0.0.1 is in use."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def log_since(log: Path, size: int) -> str:
    """Return the end of the text that was appended to a log after `size` bytes."""
    try:
        return log.read_bytes()[size:].decode(errors="replace").strip()[-500:]
    except OSError as error:
        return str(error)
