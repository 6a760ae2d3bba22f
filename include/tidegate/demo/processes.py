"""Processes in sessions of their own: started here, found again by another process, stopped as a whole.

Airflow gives every task its own process group, and Spark's JVM starts groups again; all of them stay in the session
that we began. So a session, not a group, is what is stopped. Nothing here knows what the processes do.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

#: Two start times this close (seconds) are the same process: the clock may have been set in between.
SAME_START = 5.0


@dataclass(frozen=True, slots=True)
class Session:
    """A process that leads a session. `started` (seconds since the epoch) tells it from a later one with its pid."""

    name: str
    pid: int
    started: float

    def leader(self) -> psutil.Process | None:
        """The process that was started, if it still runs."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def members(self) -> list[psutil.Process]:
        """Every live process of the session, also when its leader is gone; none if the pid now means another one.

        A pid is not given out again while a session carries it, so members without their leader are ours.
        """
        if self.leader() is None and psutil.pid_exists(self.pid) and not self._is_zombie():
            return []
        return [process for process in psutil.process_iter() if _session_of(process.pid) == self.pid]

    def _is_zombie(self) -> bool:
        try:
            return bool(psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def start_session(
    name: str, command: Sequence[str], environment: Mapping[str, str], log: Path, directory: Path
) -> tuple[Session, subprocess.Popen[bytes]]:
    """Start a command as leader of a new session, its output appended to `log`, its input empty.

    It outlives its starter. The handle is for reaping it, should the starter live longer.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Session(name, process.pid, psutil.Process(process.pid).create_time()), process


def stop_sessions(sessions: Sequence[Session], grace: float = 15.0) -> None:
    """End every process of the sessions: asked first, killed after `grace` seconds. Those already gone are fine."""
    processes = [process for session in sessions for process in session.members()]
    for process in processes:
        _signal(process, kill=False)
    psutil.wait_procs(processes, timeout=grace)
    for process in (process for session in sessions for process in session.members()):
        _signal(process, kill=True)
    psutil.wait_procs([process for session in sessions for process in session.members()], timeout=grace)


def _signal(process: psutil.Process, kill: bool) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill() if kill else process.terminate()


def write_sessions(path: Path, sessions: Sequence[Session]) -> None:
    """Note the sessions where another process finds them; replaces the file as a whole."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(json.dumps([asdict(session) for session in sessions], indent=1))
    unfinished.replace(path)


def read_sessions(path: Path) -> list[Session]:
    """The sessions noted, running or not; none if there is no such file."""
    if not path.exists():
        return []
    return [Session(**entry) for entry in json.loads(path.read_text())]
