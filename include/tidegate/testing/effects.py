"""A counter of all effects that a checkpoint has through its ports; it crashes before or after a chosen one."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from tidegate.clock import SystemClock
from tidegate.ports import CheckpointStore, Prefetch, StoreTransaction


class Crash(BaseException):
    """The end of the process. Not an Exception, so that no handler in the code under test can catch it."""


class ShiftedClock(SystemClock):
    """The real time, shifted by every sleep and by the test."""

    shift = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.shift

    def monotonic(self) -> float:
        return super().monotonic() + self.shift.total_seconds()

    def sleep(self, seconds: float) -> None:
        self.shift += timedelta(seconds=seconds)


_TRANSACTION = "transaction"


class Effects:
    """The effects of one process, counted over all wrapped ports in the order in which they happen. Only those whose
    name contains `only` count.
    """

    def __init__(self, only: str = "") -> None:
        self.only = only
        self.count = 0
        self.log: list[str] = []
        self._fatal: int | None = None
        self._before = True

    def die(self, at: int | None, before: bool = True) -> None:
        """Restart the count, and crash before or after effect number `at`."""
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
    """Return a copy of a port whose named methods are effects. It keeps all of the port's abilities."""
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
    """A port whose named methods are effects; all other attributes pass through."""

    def __init__(self, port: Any, effects: Effects, *methods: str) -> None:
        self._port = port
        self._effects = effects
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        if name not in self._methods:
            return attribute
        kind = type(self._port).__name__
        return lambda *args, **kwargs: self._effects.around(f"{kind}.{name}", lambda: attribute(*args, **kwargs))


class MortalTransactions:
    """A store whose commits are effects: a crash before one rolls it back, a crash after one leaves it durable."""

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
        mortal = [Mortal(participant, effects, "run") for participant in participants]
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
