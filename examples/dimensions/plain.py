"""The expected tables, computed in plain Python from the versions read, each with the time from which it is valid."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Row = tuple[Any, ...]
#: The time of a version, and its rows: the other columns by customer.
Version = tuple[datetime, Mapping[Any, Row]]


def current(versions: Sequence[Version]) -> list[Row]:
    latest = versions[-1][1] if versions else {}
    return [(customer, *row) for customer, row in latest.items()]


def history(versions: Sequence[Version]) -> list[Row]:
    """Return a row for each period in which a customer did not change: the customer, its beginning and end, and the
    columns.
    """
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
    """Return orders as customer, order id, amount and time, with name and city."""
    missing = (None, None) if left else None
    found = [(order, version.get(order[0], missing)) for order in orders]
    return [(*order, *row) for order, row in found if row is not None]


def then(orders: Sequence[Row], versions: Sequence[Version]) -> list[Row]:
    """Return each order with the version that was valid at its time, among those read by then."""
    found = []
    for order in orders:
        valid = [rows for at, rows in versions if order[3] is not None and at <= order[3]]
        found += with_customer([order], valid[-1] if valid else {}, left=False)
    return found
