"""Counts the effects of everything a checkpoint does through its ports, and dies before or after a chosen one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from worlds import Crash

from tidegate.ports import CheckpointStore, Look, StoreTransaction


class Effects:
    """Shared by all wrapped ports of one process, so that effects are counted in the order they happen."""

    def __init__(self) -> None:
        self.count = 0
        self.log: list[str] = []
        self._fatal: int | None = None
        self._before = True

    def die(self, at: int | None, before: bool = True) -> None:
        """Count anew, and crash before or after effect number `at`."""
        self.count, self.log, self._fatal, self._before = 0, [], at, before

    def around(self, name: str, effect: Callable[[], Any]) -> Any:
        number = self.count
        self.count += 1
        self.log.append(name)
        if number == self._fatal and self._before:
            raise Crash(f"before {name}")
        result = effect()
        if number == self._fatal:
            raise Crash(f"after {name}")
        return result


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
        self, pipeline_id: str, look: Look | None = None, participants: Any = ()
    ) -> Iterator[StoreTransaction]:
        number = self._effects.count
        with self._store.transaction(pipeline_id, look, participants) as tx:
            yield tx
            self._effects.count += 1
            self._effects.log.append("commit")
            if number == self._effects._fatal and self._effects._before:
                raise Crash("before commit")
        if number == self._effects._fatal:
            raise Crash("after commit")
