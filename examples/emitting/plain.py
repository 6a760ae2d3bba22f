"""The expected content of the examples' tables, computed from the whole input in plain Python without Tidegate."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from emitting.ranking import PLACES
from emitting.sessions import PAUSE

Row = tuple[Any, ...]


def once(orders: Iterable[Row]) -> Counter[Row]:
    return Counter(dict.fromkeys(orders, 1))


def with_customer(orders: Iterable[Row], customers: Iterable[Row]) -> Counter[Row]:
    known = {customer: (name, city) for customer, name, city in customers}
    found = once(orders)
    return Counter((id_, amount, customer, *known[customer]) for id_, customer, amount in found if customer in known)


def ranking(orders: Iterable[Row], customers: Iterable[Row]) -> dict[tuple[Any, int], int]:
    amounts: dict[Any, list[int]] = defaultdict(list)
    for _, amount, _, _, city in with_customer(orders, customers):
        amounts[city].append(amount)
    return {
        (city, place): amount
        for city, each in amounts.items()
        for place, amount in enumerate(sorted(each, reverse=True)[:PLACES], 1)
    }


def sessions(clicks: Iterable[tuple[Any, datetime]]) -> tuple[Counter[Row], dict[Any, Row]]:
    """Return the closed sessions, and the open one of each visitor."""
    closed: Counter[Row] = Counter()
    unfinished: dict[Any, Row] = {}
    for visitor, at in clicks:
        if visitor not in unfinished:
            unfinished[visitor] = (visitor, at, at, 1)
            continue
        _, began, ended, count = unfinished[visitor]
        if (at - ended).total_seconds() > PAUSE:
            closed[unfinished[visitor]] += 1
            unfinished[visitor] = (visitor, at, at, 1)
        else:
            unfinished[visitor] = (visitor, began, at, count + 1)
    return closed, unfinished


def final_places(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, int], int]:
    """Return the final places of an emitted ranking: the largest amount that was ever reported for each place."""
    best: dict[tuple[Any, int], int] = {}
    for row in rows:
        place = (row["city"], row["place"])
        best[place] = max(row["amount"], best.get(place, row["amount"]))
    return best
