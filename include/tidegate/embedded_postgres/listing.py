"""Find the embedded servers that run on this machine, of any user, in the list of processes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.embedded_postgres.postmaster import is_postgres


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A running server. `directory` has its data. `of` is the directory that it was made for, which differs where the
    server's files had to move."""

    pid: int
    port: int | None
    directory: Path
    of: Path


def running_servers(processes: Path = Path("/proc")) -> list[RunningServer]:
    """Return the running servers by process id. Servers of other users that may not be read are left out, and so is any
    PostgreSQL that is not embedded. Empty where the system has no list of processes."""
    return sorted(_running(processes), key=lambda server: server.pid)


def _running(processes: Path) -> Iterator[RunningServer]:
    for entry in processes.glob("[0-9]*"):
        try:
            data = (entry / "cwd").readlink()  # the working directory of a server's first process and all its others
            lines = (data / "postmaster.pid").read_text().splitlines()
            first, port = int(lines[0]), int(lines[3]) if len(lines) > 3 else None
        except (OSError, ValueError, IndexError):
            continue
        server = data.parent
        claim = server / "data_dir"
        of = Path(claim.read_text().strip()) if claim.exists() else server.parent
        if data.name == "pgdata" and first == int(entry.name) and is_postgres(first):
            yield RunningServer(first, port, data, of)
