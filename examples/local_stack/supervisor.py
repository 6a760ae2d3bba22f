"""A supervisor that keeps the components of a local stack running.

`LocalStack` starts it: `python -m local_stack.supervisor HOME`.

Processes that a component leaves behind when it dies become children of this process, even across process groups and
sessions: Linux gives orphans to the nearest ancestor that requests them. Orphans are ended before their component is
started again, so no worker of an earlier scheduler runs next to those of the new one.

The supervisor stops nothing when it ends. `stop` ends the supervisor first and then all others, so there is one way to
stop. If it is killed, the components keep running until the next `start` or `stop` finds them.
"""

import ctypes
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from local_stack.processes import Session, end, started_by, write_sessions
from local_stack.stack import SUPERVISOR, LocalStack
from tidegate.protocol.facts.errors import CheckpointError

#: Seconds between two checks of the processes.
INTERVAL = 1.0
#: Seconds before the first restart, the second, and so on. The count starts over after `STEADY` seconds of running.
DELAYS = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
STEADY = 60.0
#: Seconds that orphans get to end by themselves, so that a task can cancel its work elsewhere.
GRACE = 5.0
#: The title of LocalExecutor's worker processes.
_WORKER = "airflow worker -- LocalExecutor"
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True)
class BackOff:
    """The restarts of a process that ends repeatedly, and the delay before the next one."""

    began: float = 0.0
    restarts: int = 0

    def delay(self, now: float) -> float:
        """Return the seconds from its end, noticed `now`, to its next start. Counts this restart."""
        if now - self.began > STEADY:
            self.restarts = 0
        self.restarts += 1
        return DELAYS[min(self.restarts, len(DELAYS)) - 1]


@dataclass(slots=True)
class Component:
    """One of Airflow's components, or Spark: its process, and the time of its next start if there is none."""

    name: str
    session: Session | None
    due: float
    back_off: BackOff

    def pid(self) -> int | None:
        """Return the id of the running process; None if it has ended."""
        return self.session.pid if self.session is not None and self.session.leader() is not None else None


class Supervisor:
    """The supervisor of a stack whose Postgres and tables exist."""

    def __init__(self, stack: LocalStack) -> None:
        self._stack = stack
        self._components = [Component(name, None, 0.0, BackOff()) for name in stack.components]
        self._postgres = BackOff()
        self._postgres_due = 0.0
        self._database_url = stack.database_url
        self._workers: set[int] = set()
        me = psutil.Process()
        self._me = Session(SUPERVISOR, me.pid, me.create_time())

    def run(self) -> None:
        """Run until this process is ended. An error in one check is logged and does not end it."""
        _adopt_orphans()
        while True:
            try:
                self.check()
            except (CheckpointError, OSError, psutil.Error) as error:
                _say(f"{type(error).__name__}: {error}")
            time.sleep(INTERVAL)

    def check(self) -> None:
        """Start components that have ended, after ending the processes they left behind."""
        _reap()
        self._check_postgres()
        self._check_workers()
        if strays := self._strays():
            _say(f"ending orphans: {', '.join(str(process.pid) for process in strays)}")
            end(self._strays, GRACE)
        if self._stack.postgres.pid() is not None:
            for component in self._components:
                self._check(component)

    def _check(self, component: Component) -> None:
        now = time.monotonic()
        if component.pid() is not None:
            return
        if component.session is None:
            if now >= component.due:
                self._start(component)
            return
        delay = component.back_off.delay(now)
        _say(f"{component.name} (process {component.session.pid}) has ended; starts again in {delay:.0f} s")
        end(component.session.members, GRACE)
        # Started at the next check at the earliest, which first ends orphans that have left the session.
        component.session, component.due = None, now + delay

    def _start(self, component: Component) -> None:
        stack = self._stack
        component.session = stack.start_component(component.name)
        component.back_off.began = time.monotonic()
        if component.name == "scheduler":
            self._workers = set()
        _say(f"{component.name} is running as process {component.session.pid}")
        write_sessions(stack.noted, [self._me, *(c.session for c in self._components if c.session is not None)])

    def _check_postgres(self) -> None:
        now = time.monotonic()
        if self._stack.postgres.pid() is not None or now < self._postgres_due:
            return
        self._postgres_due = now + self._postgres.delay(now)
        _say("Postgres has ended; starting it")
        self._stack.postgres.start()
        self._postgres.began = time.monotonic()
        if self._stack.database_url != self._database_url:
            self._database_url = self._stack.database_url
            _say("Postgres listens on another port; starting the components again")
            end(lambda: started_by(os.getpid(), self._kept() - self._leaders()), GRACE)

    def _check_workers(self) -> None:
        """End a scheduler that has lost a worker.

        The workers of LocalExecutor share one queue, and a worker that waits for a task holds its lock. If that worker
        is killed, the lock stays, and no worker ever gets a task again.
        """
        scheduler = next(c for c in self._components if c.name == "scheduler").pid()
        if scheduler is None:
            return
        workers = {process.pid for process in _children(scheduler) if _title(process).startswith(_WORKER)}
        lost, self._workers = self._workers - workers, workers
        if lost:
            _say(f"the scheduler has lost its worker {min(lost)}; ending it")
            end(lambda: started_by(os.getpid(), self._kept() - {scheduler}), GRACE)

    def _strays(self) -> list[psutil.Process]:
        """Return processes that components left behind. Only Linux finds all; elsewhere, ending the session must
        suffice.
        """
        return started_by(os.getpid(), self._kept())

    def _leaders(self) -> set[int]:
        return {pid for component in self._components if (pid := component.pid()) is not None}

    def _kept(self) -> set[int]:
        """Return the children that are not orphans: components, and Postgres if it was started from here."""
        postgres = self._stack.postgres.pid()
        return self._leaders() | ({postgres} if postgres is not None else set())


def _adopt_orphans() -> None:
    """Become the parent of all processes that descendants leave behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap() -> None:
    """Reap ended children, which no other process can do."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            _say(f"process {pid} ended with {os.waitstatus_to_exitcode(status)}")


def _children(pid: int) -> list[psutil.Process]:
    try:
        return list(psutil.Process(pid).children())
    except psutil.NoSuchProcess:
        return []


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _say(message: str) -> None:
    print(time.strftime("%Y-%m-%d %H:%M:%S"), message, flush=True)


if __name__ == "__main__":
    Supervisor(LocalStack.noted_in(Path(sys.argv[1]))).run()
