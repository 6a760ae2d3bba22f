"""Who takes the next step: processes are threads of which exactly one runs, and a random generator says which.

A process hands over at every effect (`point`), where it may also die. What is neither a process nor an effect, such as
time passing or data arriving, is an event that `choose` carries out in between. No real time, no other randomness.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from worlds import Crash


class Violation(BaseException):
    """Something that must hold does not. Not an Exception, so that no handler in the code under test can survive it."""


def require(condition: object, otherwise: str) -> None:
    if not condition:
        raise Violation(otherwise)


class Process:
    """A thread's work, begun when it first gets its turn. `result` or `error` say how it ended;
    a crash leaves neither."""

    def __init__(self, name: str, body: Callable[[], Any], weight: float) -> None:
        self.name = name
        self.body = body
        self.weight = weight  # how often it gets its turn: some are very slow
        self.turn = threading.Lock()
        self.turn.acquire()
        self.started = False
        self.ended = False
        self.killed = False
        self.stalled = False
        self.hangs = False
        self.result: Any = None
        self.error: Exception | None = None
        self.crashed = False
        self.found: Any = None  # what was committed when its latest transaction began
        self.left: Any = None  # and when it ended
        self.skew = 0.0
        self.read_clock_at: Any = None
        self.reads: list[Any] = []  # of its clock since its last step, between which that may be set back


class Scheduler:
    """Runs processes until `choose` has none for the next turn. One object a simulated run, used from one thread."""

    def __init__(
        self, random: Random, choose: Callable[[], Process | None], now: Callable[[], Any], trace: int | None
    ) -> None:
        self.random = random
        self._now = now
        self.processes: list[Process] = []
        self.current: Process | None = None
        self.trace: deque[tuple[Any, str, str]] = deque(maxlen=trace)  # when, who, what
        self.steps = 0
        self.violation: BaseException | None = None
        self._choose = choose
        self._main = threading.Lock()
        self._main.acquire()
        self._stopping = False

    def spawn(self, name: str, body: Callable[[], Any]) -> Process:
        process = Process(name, body, 10 ** self.random.uniform(-1.5, 0))
        self.processes.append(process)
        return process

    def point(self, what: str, dies: Callable[[], bool]) -> None:
        """The current process is about to have, or has just had, an effect: others may go first,
        and it may die here."""
        me = self.current
        if me is None:  # the calm after the simulation: the test itself is the only process
            self.note(what)
            return
        me.reads.clear()
        if not me.killed:
            self.note(what)
            following = self._next()
            if following is not me:
                self._hand_over(following)
                me.turn.acquire()
            me.killed = me.killed or dies()
        if me.killed:
            self.note(f"dies where it {what}")
            raise Crash(what)

    @contextmanager
    def final(self) -> Iterator[None]:
        """What goes wrong here is what went wrong first, whatever the process does on its way out."""
        try:
            yield
        except BaseException as error:
            self.violation = self.violation or error
            raise

    def note(self, what: str, who: str | None = None) -> None:
        """One line of the trace; `who` if it is not the current process."""
        self.steps += 1
        self.trace.append((self._now(), who or ("at the end" if self.current is None else self.current.name), what))

    def run(self) -> None:
        """Raises what went wrong in any process or event, as soon as it does."""
        if (first := self._next()) is not None:
            self._hand_over(first)
            self._main.acquire()
        if self.violation is not None:
            self._stop()
            raise self.violation

    def _next(self) -> Process | None:
        if self._stopping or self.violation is not None:
            return None
        try:
            return self._choose()
        except BaseException as error:
            self.violation = error
            return None

    def _hand_over(self, following: Process | None) -> None:
        self.current = following
        if following is None:
            self._main.release()
        elif following.started:
            following.turn.release()
        else:
            following.started = True
            _employ(lambda worker: self._live(following, worker))

    def _live(self, process: Process, worker: "_Worker") -> None:
        try:
            process.result = process.body()
        except Crash:
            process.crashed = True
        except Exception as error:
            process.error = error
        except BaseException as error:
            self.violation = self.violation or error
        process.ended = True
        self.processes.remove(process)
        _idle.append(worker)
        self._hand_over(self._next())

    def _stop(self) -> None:
        """Unwind every process that is still in the middle of something."""
        self._stopping = True
        for process in [process for process in self.processes if process.started]:
            process.killed = True
            self._hand_over(process)
            self._main.acquire()


class _Worker:
    """A thread that is used again: starting one costs more than most processes do."""

    def __init__(self) -> None:
        self.wake = threading.Lock()
        self.wake.acquire()
        self.job: Callable[[_Worker], None] | None = None
        threading.Thread(target=self._work, daemon=True, name="simulated").start()

    def _work(self) -> None:
        while True:
            self.wake.acquire()
            assert self.job is not None
            self.job(self)


_idle: list[_Worker] = []


def _employ(job: Callable[[_Worker], None]) -> None:
    worker = _idle.pop() if _idle else _Worker()
    worker.job = job
    worker.wake.release()
