"""Executors without threads, for what a continuous run does beside its rounds."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import datetime, timedelta
from random import Random
from typing import Any

from worlds import Crash

from tidegate.coordination.continuous.completing import Completing


class Inline(Executor):
    """Does at once, in the same thread, what it is asked to do; dies with it as well."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **named))
        except Crash:
            raise
        except Exception as error:
            done.set_exception(error)
        return done


class Later(Executor):
    """Does it when it is told to. If `random` is given, any of what waits may come first."""

    def __init__(self, random: Random | None = None) -> None:
        self.jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._random = random

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.jobs.append((future, lambda: work(*arguments, **named)))
        return future

    def work(self) -> None:
        """One of what waits. A `Crash` is raised, all else is the result."""
        if self._random is not None:
            self.jobs.rotate(self._random.randrange(len(self.jobs)))
        future, job = self.jobs.popleft()
        try:
            future.set_result(job())
        except Crash:
            raise
        except Exception as error:
            future.set_exception(error)


class LaterBut(Later):
    """The same, but for what objects of one kind are to do: that is done at once."""

    def __init__(self, at_once: type, random: Random | None = None) -> None:
        super().__init__(random)
        self._at_once = at_once

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        if isinstance(getattr(work, "__self__", None), self._at_once):
            return Inline().submit(work, *arguments, **named)
        return super().submit(work, *arguments, **named)


class Slow(Executor):
    """Completing a checkpoint takes so long by a clock, unless somebody waits for it. All else is done at once."""

    now: Callable[[], datetime]
    takes = timedelta(seconds=14)

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> "Future[Any]":
        if not isinstance(getattr(work, "__self__", None), Completing):
            return Inline().submit(work, *arguments, **named)
        now = type(self).now
        until = now() + self.takes
        return _Owed(lambda: now() >= until, lambda: work(*arguments, **named))


class _Owed(Future[Any]):
    def __init__(self, is_due: Callable[[], bool], job: Callable[[], Any]) -> None:
        super().__init__()
        self._is_due = is_due
        self._job: Callable[[], Any] | None = job

    def done(self) -> bool:
        if self._is_due():
            self._work()
        return super().done()

    def result(self, timeout: float | None = None) -> Any:
        self._work()
        return super().result(0)

    def _work(self) -> None:
        job, self._job = self._job, None
        if job is None:
            return
        try:
            self.set_result(job())
        except Crash:
            raise
        except Exception as error:
            self.set_exception(error)
