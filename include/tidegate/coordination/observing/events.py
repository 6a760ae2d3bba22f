"""Deliver a pipeline's events to its notifiers, at least once each. After a crash the next process delivers them
(decisions/034).

`protocol.observing.events` decides the time of each delivery. No error here harms a checkpoint.
"""

import logging
from collections.abc import Sequence

from tidegate.coordination.context import PipelineContext
from tidegate.ports import Notifier
from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.observing.events import (
    FORGOTTEN_ONCE_DELIVERED,
    KEPT_FOR,
    Event,
    EventKind,
    choose_next,
    next_try,
)

log = logging.getLogger("tidegate")


class EventDelivery:
    """The deliveries of one pipeline. Safe in several processes at once: an event belongs to the process that began its
    delivery, until a lease is over."""

    def __init__(self, context: PipelineContext, notifiers: Sequence[Notifier]) -> None:
        self._context = context
        self._notifiers = notifiers

    def wants(self, kind: EventKind) -> bool:
        return any(kind in notifier.kinds for notifier in self._notifiers)

    def deliver(self) -> None:
        """Deliver all events that are due. Raises nothing: a failed delivery or record is repeated later."""
        for notifier in self._notifiers:
            try:
                while (event := self._begin(notifier)) is not None and self._notify(notifier, event):
                    pass
            except CheckpointError as error:
                log.warning(
                    "The deliveries of notifier %s for pipeline %s cannot be read or recorded, and are left to the "
                    "next run: %s",
                    notifier.name,
                    self._context.pipeline_id,
                    error,
                )

    def _begin(self, notifier: Notifier) -> Event | None:
        with self._context.transaction() as tx:
            now = self._context.clock.now()
            chosen = choose_next(tx.undelivered(notifier.name, notifier.kinds, now - KEPT_FOR), now)
            if chosen is None:
                return None
            tx.begin_delivery(notifier.name, chosen.event.number, next_try(chosen.attempts + 1, now))
            return chosen.event

    def _notify(self, notifier: Notifier, event: Event) -> bool:
        """Whether to deliver the next event. False for a notifier that cannot be reached."""
        try:
            taken = notifier.notify(event)
        except Exception as error:
            # Log only the type of error: its text may contain an address, which may be a secret.
            log.warning(
                "Notifier %s was not reached about %s of pipeline %s (%s). It is retried, and the pipeline continues.",
                notifier.name,
                event.kind,
                self._context.pipeline_id,
                type(error).__name__,
            )
            return False
        with self._context.transaction() as tx:
            if not taken:
                tx.refuse_delivery(notifier.name, event.number)
                return True
            tx.end_delivery(notifier.name, event.number, self._context.clock.now())
            if event.kind in FORGOTTEN_ONCE_DELIVERED:
                tx.forget_event(event.number)
        return True
