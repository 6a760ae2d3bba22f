"""Sinks in whose places something lies for a time only."""

from datetime import datetime
from typing import Protocol, runtime_checkable

from tidegate.ports.connectors import CommitAttempt


@runtime_checkable
class LingeringSink(Protocol):
    """A sink in whose place something lies for a time only, such as a table that was replaced. Its commits remove it,
    and a cleaning does so where none come."""

    def outdated(self, now: datetime) -> list[str]:
        """Files whose time is over, for a report. Changes nothing."""
        ...

    def remove_outdated(self, attempt: CommitAttempt) -> None:
        """Remove them. Fenced as `commit` is."""
        ...
