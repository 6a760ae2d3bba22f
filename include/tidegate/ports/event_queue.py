"""The part of a transaction about events and their notifications."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import EventKind, Undelivered


class EventQueue(Protocol):
    """The events of one pipeline, and their deliveries to notifiers. To begin, refuse or end a delivery wakes no
    process that waits for a change."""

    def add_event(
        self,
        kind: EventKind,
        message: str,
        at: datetime,
        checkpoint_id: int | None = None,
        reason: FailureReason | None = None,
    ) -> None: ...
    def undelivered(self, notifier: str, kinds: Collection[EventKind], since: datetime) -> list[Undelivered]:
        """Read events of these kinds, recorded since then, that the notifier has not taken. Oldest first, a bounded
        number."""
        ...

    def begin_delivery(self, notifier: str, number: int, again_at: datetime) -> None:
        """Count an attempt at delivering an event. It is repeated at `again_at` unless it is ended."""
        ...

    def refuse_delivery(self, notifier: str, number: int) -> None:
        """Record that the notifier refused the event."""
        ...

    def end_delivery(self, notifier: str, number: int, at: datetime) -> None:
        """Record that the notifier has taken the event."""
        ...

    def forget_event(self, number: int) -> None: ...
    def forget_events(self, before: datetime) -> None:
        """Delete all events that were recorded before that time."""
        ...

    def mark_stale(self, since: datetime | None) -> None:
        """Record since when the pipeline is stale; None if it no longer is."""
        ...
