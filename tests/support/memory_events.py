"""The queue of events of the store in memory, as `tidegate.postgres.events` is on Postgres."""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

from memory_facts import MemoryFacts

from tidegate.protocol.facts.pipelines import PipelineRecord
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.observing.events import Event, EventKind, Undelivered
from tidegate.protocol.text.storable import storable_text


class MemoryEvents(MemoryFacts):
    def add_event(
        self,
        kind: EventKind,
        message: str,
        at: datetime,
        checkpoint_id: int | None = None,
        reason: FailureReason | None = None,
    ) -> None:
        self.state.last_event += 1
        number, named = self.state.last_event, None if reason is None else reason.name
        event = Event(self.pipeline_id, number, kind, at, storable_text(message), checkpoint_id, named)
        self.state.events[number] = event

    def undelivered(self, notifier: str, kinds: Collection[EventKind], since: datetime) -> list[Undelivered]:
        found = (event for _, event in sorted(self.state.events.items()) if event.kind in kinds and event.at >= since)
        tries = (self.state.deliveries.get((event.number, notifier), Undelivered(event)) for event in found)
        return [each for each in tries if each is not None][:100]

    def begin_delivery(self, notifier: str, number: int, again_at: datetime) -> None:
        event = self.state.events[number]
        before = self.state.deliveries.get((number, notifier)) or Undelivered(event)
        self.state.deliveries[number, notifier] = Undelivered(event, before.attempts + 1, again_at)

    def refuse_delivery(self, notifier: str, number: int) -> None:
        before = self.state.deliveries.get((number, notifier))
        if before is not None:
            self.state.deliveries[number, notifier] = replace(before, refused=True)

    def end_delivery(self, notifier: str, number: int, at: datetime) -> None:
        if (number, notifier) in self.state.deliveries:
            self.state.deliveries[number, notifier] = None

    def forget_event(self, number: int) -> None:
        self._keep_events({id_ for id_ in self.state.events if id_ != number})

    def forget_events(self, before: datetime) -> None:
        self._keep_events({id_ for id_, event in self.state.events.items() if event.at >= before})

    def _keep_events(self, numbers: set[int]) -> None:
        self.state.events = {id_: event for id_, event in self.state.events.items() if id_ in numbers}
        self.state.deliveries = {key: each for key, each in self.state.deliveries.items() if key[0] in numbers}

    def mark_stale(self, since: datetime | None) -> None:
        known = self.state.pipeline or PipelineRecord(self.pipeline_id)
        self.state.pipeline = replace(known, stale_since=since)
