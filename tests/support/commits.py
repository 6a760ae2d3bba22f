"""Attempts at committing a sink, as the store gives them out: each has the next number,
and only the newest is confirmed."""

import threading
from collections.abc import Sequence
from typing import Any, ClassVar

from tidegate.protocol.facts.errors import SupersededAttemptError
from tidegate.protocol.facts.records import StateHandle


class Attempt:
    """A `ports.CommitAttempt`. `keep` says nothing, as it mostly does: only what a sink does by itself fences."""

    _newest: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        with Attempt._lock:
            Attempt._newest += 1
            self.number = Attempt._newest

    def confirm(self) -> None:
        if self.number != Attempt._newest:
            raise SupersededAttemptError(f"attempt {self.number} was overtaken by {Attempt._newest}")

    def keep(self) -> None:
        return None


def commit(sink: Any, checkpoint_id: int, staged: Sequence[StateHandle]) -> None:
    """The next attempt, from its beginning to its end."""
    sink.commit(checkpoint_id, staged, Attempt())
