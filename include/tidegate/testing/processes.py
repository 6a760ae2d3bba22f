"""Processes that are killed, or stopped and continued, before a chosen line of the code under test.

A step is a line of that code. It runs in a forked child, which SIGKILL ends there: the process itself cleans up,
flushes and rolls back nothing. An effect of a line is covered by the steps before and after it.
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
    """The end of a child. `error` is the traceback if its work raised; `killed` is whether it reached its step."""

    killed: bool
    error: str = ""


def code_of(thing: object) -> tuple[str, ...]:
    """Return the files of a class and of its base classes in the same package, including the rest of their packages."""
    first, files = type(thing).__module__.partition(".")[0], set[str]()
    for name in {base.__module__ for base in type(thing).__mro__}:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if file and name.partition(".")[0] == first:
            files.add(os.path.dirname(file) + os.sep if getattr(module, "__package__", "") else file)
    return tuple(sorted(files))


def steps_of(work: Work, code: tuple[str, ...]) -> list[Step]:
    """Return the steps of work that runs to its end: each line on its first and last visit. An error of the work is
    raised.
    """
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
        output = pipe.read()
    ended = child.wait()
    if ended.error:
        raise AssertionError(f"The work failed by itself, without any crash:\n{ended.error}")
    return [Step(file, line, visit) for file, line, visits in json.loads(output) for visit in sorted({1, visits})]


def killed_before(step: Step, work: Work, code: tuple[str, ...]) -> Ended:
    """Run work in a process that is killed before a step."""
    return Child(lambda: _until(step, work, code, signal.SIGKILL)).wait()


class Stopped:
    """Work in a process that stops before a step. `reached` is whether it reached the step."""

    def __init__(self, step: Step, work: Work, code: tuple[str, ...]) -> None:
        self._child = Child(lambda: _until(step, work, code, signal.SIGSTOP))
        self.reached = self._child.stops()

    def go_on(self) -> Ended:
        """Continue the process, and wait for its end."""
        self._child.signal(signal.SIGCONT)
        return self._child.wait()


class Child:
    """A forked process that does some work and ends without running the rest of its parent's code."""

    def __init__(self, work: Work) -> None:
        self._errors, writing = os.pipe()
        self._status: int | None = None
        self._ended: Ended | None = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the child is meant to lack other threads
            self._pid = os.fork()
        if not self._pid:
            _end(work, writing)
        os.close(writing)

    def stops(self) -> bool:
        """Wait until the process stops or ends. Return whether it stopped."""
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

    def on_frame(frame: FrameType) -> None:
        nonlocal visits
        if frame.f_lineno == step.line and frame.f_code.co_filename == step.file:
            visits += 1
            if visits == step.visit:
                os.kill(os.getpid(), number)

    _trace(code, on_frame)
    work()


def _trace(code: Iterable[str], on_frame: Callable[[FrameType], None]) -> None:
    prefixes = tuple(code)

    def on_line(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            on_frame(frame)
        return on_line

    sys.settrace(lambda frame, event, _: on_line if frame.f_code.co_filename.startswith(prefixes) else None)
