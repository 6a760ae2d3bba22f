"""The expected content of the example's tables, computed in plain Python without Tidegate.

The input is a list of checkpoints, each with its time and the events that it has read.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

Event = tuple[int, Any, int, datetime]
Checkpoint = tuple[datetime, Sequence[Event]]

ACTIVE_FOR, KNOWN_FOR = timedelta(days=30), timedelta(days=7)


def active(checkpoints: Iterable[Checkpoint]) -> dict[Any, tuple[int, int, int, int]]:
    """Return, by customer, the number and total of events since the last pause of thirty days, and the number of
    distinct amounts, which is so small that the estimate is exact.
    """
    found: dict[Any, tuple[list[int], datetime]] = {}
    for now, events in checkpoints:
        found = {customer: row for customer, row in found.items() if row[1] + ACTIVE_FOR > now}
        for _, customer, amount, _ in events:
            amounts, _ = found.get(customer, ([], now))
            found[customer] = ([*amounts, amount], now)
    rows = ((customer, amounts) for customer, (amounts, _) in found.items())
    return {customer: (len(all_), sum(all_), len(set(all_)), len(set(all_))) for customer, all_ in rows}


def once(checkpoints: Iterable[Checkpoint]) -> Counter[Event]:
    """Return the emitted events: each once, and again if it arrives after it has expired."""
    known: dict[int, datetime] = {}
    emitted: Counter[Event] = Counter()
    clock = datetime.min + KNOWN_FOR
    for _, events in checkpoints:
        known = {event_id: at for event_id, at in known.items() if at > clock - KNOWN_FOR}
        brought = {event_id: min(same(events, event_id)) for event_id, *_ in events}
        for event_id, (at, customer, amount) in brought.items():
            if event_id not in known:
                emitted[event_id, customer, amount, at] += 1
                known[event_id] = at
        clock = max([clock, *known.values()])
    return emitted


def same(events: Iterable[Event], event_id: int) -> list[tuple[datetime, Any, int]]:
    return [(at, customer, amount) for id_, customer, amount, at in events if id_ == event_id]
