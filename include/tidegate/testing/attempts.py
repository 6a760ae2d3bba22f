"""Commit attempts, numbered as the coordinator numbers them. Only the newest is confirmed.

The newest number is in a file, so that a stopped process can notice its successor.
"""

from dataclasses import dataclass
from pathlib import Path

from tidegate.protocol.facts.errors import SupersededAttemptError


@dataclass(frozen=True, slots=True)
class KitAttempt:
    """A `ports.CommitAttempt`. `keep` does nothing, as in most cases: only the sink's own fencing counts."""

    number: int
    newest: Path

    def confirm(self) -> None:
        newest = int(self.newest.read_text())
        if newest != self.number:
            raise SupersededAttemptError(f"Attempt {self.number} was overtaken by attempt {newest}.")

    def keep(self) -> None:
        return None


class KitAttempts:
    """The attempts of one sink."""

    def __init__(self, newest: Path) -> None:
        self._newest = newest
        self._number = 0

    def next(self) -> KitAttempt:
        self._number += 1
        self._newest.write_text(str(self._number))
        return KitAttempt(self._number, self._newest)
