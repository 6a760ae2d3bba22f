"""Processes that are killed, or stopped and continued, before a chosen line of somebody's code.

A step is a line of the code under test. It runs in a forked child, which ends there by SIGKILL: nothing is cleaned up,
flushed or rolled back by the process itself. An effect is what a line does, so its neighbours are before and after it.
"""

import json
import linecache
import os
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Any

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Step:
    """A line that is about to run for the `visit`th time."""

    file: str
    line: int
    visit: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line} ({linecache.getline(self.file, self.line).strip()})"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. `error` is the traceback of work that raised, `killed` whether it came to its step."""

    killed: bool
    error: str = ""


def code_of(thing: object) -> tuple[str, ...]:
    """The files of a class and of those that it inherits from, if they are of one package, and the rest of theirs."""
    first, found = type(thing).__module__.partition(".")[0], set[str]()
    for name in {each.__module__ for each in type(thing).__mro__}:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] == first:
            found.add(os.path.dirname(file) + os.sep if getattr(module, "__package__", "") else file)
    return tuple(sorted(found))


def steps_of(work: Work, code: tuple[str, ...]) -> list[Step]:
    """The steps of work that runs to its end, each line when it is first and last met. Raises what the work raised."""
    reading, writing = os.pipe()

    def traced() -> None:
        lines: Counter[tuple[str, int]] = Counter()
        _trace(code, lambda frame: lines.update([(frame.f_code.co_filename, frame.f_lineno)]))
        work()
        sys.settrace(None)
        with os.fdopen(writing, "w") as pipe:
            json.dump([[*line, visits] for line, visits in lines.items()], pipe)

    child = Child(traced)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    ended = child.wait()
    if ended.error:
        raise AssertionError(f"The work failed by itself, without any crash:\n{ended.error}")
    return [Step(file, line, visit) for file, line, visits in json.loads(said) for visit in sorted({1, visits})]


def killed_before(step: Step, work: Work, code: tuple[str, ...]) -> Ended:
    """Run work in a process of its own that is killed before a step."""
    return Child(lambda: _until(step, work, code, signal.SIGKILL)).wait()


class Stopped:
    """Work in a process of its own that stops before a step. `reached` says whether it came there."""

    def __init__(self, step: Step, work: Work, code: tuple[str, ...]) -> None:
        self._child = Child(lambda: _until(step, work, code, signal.SIGSTOP))
        self.reached = self._child.stops()

    def go_on(self) -> Ended:
        """Continue it, and wait for its end."""
        self._child.signal(signal.SIGCONT)
        return self._child.wait()


class Child:
    """A forked process that does some work and ends without anything that follows in its parent."""

    def __init__(self, work: Work) -> None:
        self._errors, writing = os.pipe()
        self._status: int | None = None
        self._ended: Ended | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that other threads are not in the child is meant
            self._pid = os.fork()
        if not self._pid:
            _end(work, writing)
        os.close(writing)

    def stops(self) -> bool:
        """Wait until it stops, or has ended."""
        _, status = os.waitpid(self._pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return True
        self._status = status
        return False

    def signal(self, number: signal.Signals) -> None:
        if self._status is None:
            os.kill(self._pid, number)

    def wait(self) -> Ended:
        if self._ended is None:
            with os.fdopen(self._errors) as pipe:
                error = pipe.read()
            if self._status is None:
                _, self._status = os.waitpid(self._pid, 0)
            self._ended = Ended(os.WIFSIGNALED(self._status), error)
        return self._ended


def _end(work: Work, errors: int) -> None:
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        sys.settrace(None)
        os.write(errors, traceback.format_exc()[-8000:].encode())
    finally:
        os._exit(status)


def _until(step: Step, work: Work, code: tuple[str, ...], number: signal.Signals) -> None:
    visits = 0

    def look(frame: FrameType) -> None:
        nonlocal visits
        if frame.f_lineno == step.line and frame.f_code.co_filename == step.file:
            visits += 1
            if visits == step.visit:
                os.kill(os.getpid(), number)

    _trace(code, look)
    work()


def _trace(code: Iterable[str], look: Callable[[FrameType], None]) -> None:
    prefixes = tuple(code)

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            look(frame)
        return on_line

    sys.settrace(lambda frame, event, _: on_line if frame.f_code.co_filename.startswith(prefixes) else None)
