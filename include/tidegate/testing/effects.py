"""Counts the effects of everything a checkpoint does through its ports, and dies before or after a chosen one."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from tidegate.clock import SystemClock
from tidegate.ports import CheckpointStore, Prefetch, StoreTransaction


class Crash(BaseException):
    """The process is gone. Not an Exception, so that no handler in the code under test can survive it."""


class ShiftedClock(SystemClock):
    """The real time, and what somebody has slept or a test has added."""

    shift = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.shift

    def monotonic(self) -> float:
        return super().monotonic() + self.shift.total_seconds()

    def sleep(self, seconds: float) -> None:
        self.shift += timedelta(seconds=seconds)


_TRANSACTION = "transaction"


class Effects:
    """Shared by all wrapped ports of one process, so that effects are counted in the order they happen: those whose
    name contains `only`."""

    def __init__(self, only: str = "") -> None:
        self.only = only
        self.count = 0
        self.log: list[str] = []
        self._fatal: int | None = None
        self._before = True

    def die(self, at: int | None, before: bool = True) -> None:
        """Count anew, and crash before or after effect number `at`."""
        self.count, self.log, self._fatal, self._before = 0, [], at, before

    def around(self, name: str, effect: Callable[[], Any]) -> Any:
        if self.only not in name:
            return effect()
        number = self.count
        self.count += 1
        self.log.append(name)
        if number == self._fatal and self._before:
            raise Crash(f"before {name}")
        result = effect()
        if number == self._fatal:
            raise Crash(f"after {name}")
        return result


def mortal(port: Any, effects: Effects, *methods: str) -> Any:
    """A copy of a port whose named methods are effects, and which has all of its abilities."""
    kind = type(port)

    def dying(name: str) -> Callable[..., Any]:
        effect: Callable[..., Any] = getattr(kind, name)
        return lambda self, *args, **kwargs: effects.around(
            f"{kind.__name__}.{name}", lambda: effect(self, *args, **kwargs)
        )

    wrapped = {name: dying(name) for name in methods if hasattr(kind, name)}
    copied = copy.copy(port)
    object.__setattr__(copied, "__class__", type(kind.__name__, (kind,), {**wrapped, "__module__": kind.__module__}))
    return copied


class Mortal:
    """Any port whose named methods are effects; everything else passes through."""

    def __init__(self, port: Any, effects: Effects, *methods: str) -> None:
        self._port = port
        self._effects = effects
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._methods:
            return found
        kind = type(self._port).__name__
        return lambda *args, **kwargs: self._effects.around(f"{kind}.{name}", lambda: found(*args, **kwargs))


class MortalTransactions:
    """A store whose commits are effects: dying before one rolls it back, dying after one leaves it durable."""

    def __init__(self, store: CheckpointStore, effects: Effects) -> None:
        self._store = store
        self._effects = effects

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(
        self, pipeline_id: str, prefetch: Prefetch | None = None, participants: Any = ()
    ) -> Iterator[StoreTransaction]:
        effects = self._effects
        counts = effects.only in _TRANSACTION
        mortal = [Mortal(each, effects, "run") for each in participants]
        with self._store.transaction(pipeline_id, prefetch, mortal) as tx:
            yield tx
            number = effects.count
            if counts:
                effects.count += 1
                effects.log.append(_TRANSACTION)
                if number == effects._fatal and effects._before:
                    raise Crash(f"before {_TRANSACTION}")
        if counts and number == effects._fatal:
            raise Crash(f"after {_TRANSACTION}")
