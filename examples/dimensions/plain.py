"""The same tables in plain Python, from the versions that were read, each with the time from which it is valid."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Row = tuple[Any, ...]
#: By customer, the other columns.
Version = tuple[datetime, Mapping[Any, Row]]


def current(versions: Sequence[Version]) -> list[Row]:
    latest = versions[-1][1] if versions else {}
    return [(customer, *row) for customer, row in latest.items()]


def history(versions: Sequence[Version]) -> list[Row]:
    """A row for each time that a customer was the same: the customer, from when and until when, and the columns."""
    found, opened = [], dict[Any, tuple[datetime, Row]]()
    for at, rows in versions:
        for customer, (since, row) in list(opened.items()):
            if rows.get(customer) != row:
                found.append((customer, since, at, *row))
                del opened[customer]
        for customer in rows.keys() - opened.keys():
            opened[customer] = at, rows[customer]
    return found + [(customer, since, None, *row) for customer, (since, row) in opened.items()]


def with_customer(orders: Sequence[Row], version: Mapping[Any, Row], left: bool) -> list[Row]:
    """Orders by customer, order id, amount and time, with the name and the city."""
    nobody = (None, None) if left else None
    found = [(order, version.get(order[0], nobody)) for order in orders]
    return [(*order, *row) for order, row in found if row is not None]


def then(orders: Sequence[Row], versions: Sequence[Version]) -> list[Row]:
    """Each order with the version that was valid at its time, among those that were read by then."""
    found = []
    for order in orders:
        valid = [rows for at, rows in versions if order[3] is not None and at <= order[3]]
        found += with_customer([order], valid[-1] if valid else {}, left=False)
    return found
