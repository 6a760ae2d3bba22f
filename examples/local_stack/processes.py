"""Processes in sessions of their own: started here, found again by another process, stopped as a whole.

Airflow gives every task its own process group, and Spark's JVM starts more groups. Most processes stay in the session
that was started here. Those that leave it are found by a mark in their environment. This module does not know the
purpose of the processes.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from local_stack.secrets_file import open_log
from tidegate.protocol.facts.errors import CheckpointError

#: A variable in the environment of every process of a stack, whose value names the stack.
MARK = "TIDEGATE_STACK"

#: Two start times this close (seconds) are the same process, because the clock may have been set in between.
SAME_START = 5.0
#: Seconds that a killed process may take until it is gone.
_PATIENCE = 30.0


class UnstoppableError(CheckpointError):
    """A process has not ended, although it was killed."""


@dataclass(frozen=True, slots=True)
class Session:
    """A process that leads a session. `started` (seconds since the epoch) distinguishes it from a later one with its
    pid.
    """

    name: str
    pid: int
    started: float

    def leader(self) -> psutil.Process | None:
        """Return the process that was started, if it still runs."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def members(self) -> list[psutil.Process]:
        """Return every live process of the session, even if its leader is gone; none if the pid now means another
        session.
        """
        processes = [process for process in psutil.process_iter() if _session_of(process.pid) == self.pid]
        return [process for process in processes if is_alive(process)] if self.is_valid() else []

    def is_valid(self) -> bool:
        """Whether the pid still refers to this session, if it refers to any.

        A pid is not used again while a session has it, so members without a leader belong to this session.
        """
        try:
            return self.leader() is not None or psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
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
    """Start a command as leader of a new session, with its output appended to the private file `log` and no input.

    The process outlives its starter. The returned handle lets a longer-lived starter reap it.
    """
    with open_log(log) as output:
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


def belonging(sessions: Sequence[Session], mark: str) -> list[psutil.Process]:
    """Return every live process of the sessions, every one of this user with the mark in its environment, and all their
    descendants, except this process.

    Sessions include processes whose environment cannot be read: Airflow's workers hide theirs. The mark includes
    processes that have started a session of their own.
    """
    leaders = {session.pid for session in sessions if session.is_valid()}
    children = _by_parent()
    processes = [process for siblings in children.values() for process in siblings]
    members = {p for p in processes if _session_of(p.pid) in leaders or _is_marked(p, mark)}
    members = members.union(*(_below(process.pid, children) for process in members))
    return [process for process in members if process.pid != os.getpid() and is_alive(process)]


def started_by(pid: int, but: Collection[int] = ()) -> list[psutil.Process]:
    """Return the live descendants of a process, except some children and their descendants."""
    children = _by_parent()
    members = {child for child in children.get(pid, []) if child.pid not in but}
    members = members.union(*(_below(child.pid, children) for child in members))
    return [process for process in members if is_alive(process)]


def end(find: Callable[[], Iterable[psutil.Process]], grace: float = 15.0) -> None:
    """End the processes found: terminate them first, kill them after `grace` seconds. Repeat until none is found,
    because a process may start another while it ends.

    Raises:
        UnstoppableError: If the system does not end one.
    """
    known: set[psutil.Process] = set()
    began = time.monotonic()
    while remaining := {process for process in known.union(find()) if is_alive(process)}:
        late = time.monotonic() - began > grace
        if time.monotonic() - began > grace + _PATIENCE:
            left = ", ".join(str(process.pid) for process in remaining)
            raise UnstoppableError(
                f"These processes were killed but have not ended: {left}. The system holds them, often because "
                "a disk or mount does not respond. Fix that, then stop the stack again."
            )
        for process in remaining if late else remaining - known:
            with suppress(psutil.NoSuchProcess):
                process.kill() if late else process.terminate()
        known |= remaining
        psutil.wait_procs(list(remaining), timeout=0.1)


def is_alive(process: psutil.Process) -> bool:
    """Whether the process still runs. One that has ended and waits to be reaped does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _by_parent() -> dict[int, list[psutil.Process]]:
    children: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            children.setdefault(process.ppid(), []).append(process)
    return children


def _below(pid: int, children: Mapping[int, list[psutil.Process]]) -> Iterator[psutil.Process]:
    for child in children.get(pid, []):
        yield child
        yield from _below(child.pid, children)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.uids().real == os.getuid() and process.environ().get(MARK) == mark)
    except (psutil.Error, OSError):
        return False


def write_sessions(path: Path, sessions: Sequence[Session]) -> None:
    """Write the sessions where another process finds them. The file is replaced as a whole."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(json.dumps([asdict(session) for session in sessions], indent=1))
    unfinished.replace(path)


def read_sessions(path: Path) -> list[Session]:
    """Return the sessions written, running or not; none if there is no such file."""
    if not path.exists():
        return []
    return [Session(**entry) for entry in json.loads(path.read_text())]
