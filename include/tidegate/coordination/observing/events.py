"""Delivers a pipeline's events to those who asked to be told: at least once each, also after a crash, by whoever comes
next (decisions/034).

`protocol.observing.events` decides what is delivered when. Nothing that goes wrong here harms a checkpoint.
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
    """Safe in several processes at once: an event belongs to the one that began its delivery, until a lease is over."""

    def __init__(self, context: PipelineContext, notifiers: Sequence[Notifier]) -> None:
        self._context = context
        self._notifiers = notifiers

    def wants(self, kind: EventKind) -> bool:
        return any(kind in notifier.kinds for notifier in self._notifiers)

    def deliver(self) -> None:
        """Everything that is due. Raises nothing: what cannot be delivered or recorded now is due later."""
        for notifier in self._notifiers:
            try:
                while (event := self._begin(notifier)) is not None and self._notify(notifier, event):
                    pass
            except CheckpointError as error:
                log.warning(
                    "What notifier %s was told about pipeline %s cannot be looked up or recorded, and is left to the "
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
        """Whether to go on with the next event: not with a notifier that cannot be reached."""
        try:
            taken = notifier.notify(event)
        except Exception as error:
            # Only what kind of error: its text may hold an address, and an address may be a secret.
            log.warning(
                "Notifier %s was not reached about %s of pipeline %s (%s). It is tried again; the pipeline goes on.",
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
