"""The part of a transaction that is about what others are told of."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import EventKind, Undelivered


class EventQueue(Protocol):
    """Events of one pipeline, and which notifier has taken which. To begin, refuse or end a delivery wakes no process
    that waits for a change."""

    def add_event(
        self,
        kind: EventKind,
        message: str,
        at: datetime,
        checkpoint_id: int | None = None,
        reason: FailureReason | None = None,
    ) -> None: ...
    def undelivered(self, notifier: str, kinds: Collection[EventKind], since: datetime) -> list[Undelivered]:
        """Events of these kinds, recorded since then, that the notifier has not taken. Oldest first, a bounded
        number."""
        ...

    def begin_delivery(self, notifier: str, number: int, again_at: datetime) -> None:
        """Count an attempt at delivering an event, to be repeated at that time unless it is ended."""
        ...

    def refuse_delivery(self, notifier: str, number: int) -> None:
        """The notifier did not want it as it is."""
        ...

    def end_delivery(self, notifier: str, number: int, at: datetime) -> None:
        """The notifier has taken it."""
        ...

    def forget_event(self, number: int) -> None: ...
    def forget_events(self, before: datetime) -> None:
        """All that were recorded before that time."""
        ...

    def mark_stale(self, since: datetime | None) -> None:
        """Record since when the pipeline is stale. None: it is not any more."""
        ...
