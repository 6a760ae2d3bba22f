"""A thread that is stopped before the k-th thing it asks of the file system, and goes on when somebody says so."""

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

EFFECTS = ("rename", "replace", "link", "symlink", "unlink", "mkdir", "rmdir", "fsync", "utime")
LOOKS = ("listdir", "readlink", "stat")
MOST_SECONDS = 60.0


class Stopped:
    """`begin` returns when the work has come to its k-th step, or to its end; `go_on` when it has ended."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, work: Callable[[], Any]) -> None:
        self._at, self._work = at, work
        self.steps: list[str] = []
        self.error: Exception | None = None
        self._there, self._may_go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for name in (*EFFECTS, *LOOKS):
            patch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is self._thread:
                self.meet(name)
            return step(*args, **kwargs)

        return call

    def meet(self, name: str) -> None:
        """The thread is about to take a step."""
        self.steps.append(name)
        if len(self.steps) == self._at:
            self._there.set()
            assert self._may_go_on.wait(MOST_SECONDS)

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.error = error
        finally:
            self._there.set()

    def begin(self) -> bool:
        """Whether it was stopped, rather than at its end."""
        self._thread.start()
        assert self._there.wait(MOST_SECONDS)
        return len(self.steps) == self._at

    def go_on(self) -> None:
        self._may_go_on.set()
        self._thread.join(MOST_SECONDS)
        assert not self._thread.is_alive()
