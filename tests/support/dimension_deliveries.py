"""Versions of a file of customers, as a shop might deliver them, and tables held against the plain computation."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from orders import rows_of

from dimensions import plain

PEOPLE = ["ann", "bob", "cyd", "dan", "eve", "fay"]
CITIES = ["Bern", "Rome", "Oslo", None]
T0 = datetime(2026, 1, 1)


class Customers:
    """`read` are the versions that a pipeline is known to have read."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.random = path, Random(seed)
        self.now, self.rows = T0, dict[str, tuple[Any, ...]]()
        self.read: list[plain.Version] = []
        path.parent.mkdir(parents=True, exist_ok=True)

    def deliver(self, rows: Mapping[str, tuple[Any, ...]] | None = None) -> plain.Version:
        """Write another version, in place of the last."""
        self.now += timedelta(days=1, milliseconds=1)
        self.rows = dict(self._changed() if rows is None else rows)
        lines = (",".join((customer, *(value or "" for value in row))) for customer, row in self.rows.items())
        put(self.path, "\n".join(("customer,name,city", *lines)) + "\n", self.now)
        return self.now, self.rows

    def _changed(self) -> Mapping[str, tuple[Any, ...]]:
        random, rows = self.random, dict(self.rows)
        for customer in random.sample(PEOPLE, 3):
            rows[customer] = (customer.title(), random.choice(CITIES))
        if len(rows) > 3:
            del rows[random.choice(sorted(rows))]
        return rows

    def check(self, tables: Path) -> None:
        columns = ("customer", "valid_from", "valid_to", "name", "city")
        for name, names, expected in (
            ("customers", ("customer", "name", "city"), plain.current(self.read)),
            ("history", columns, plain.history(self.read)),
        ):
            shown = [tuple(_naive(row[column]) for column in names) for row in rows_of(tables / name)]
            assert sorted(shown, key=repr) == sorted(expected, key=repr), name


def put(path: Path, text: str, at: datetime) -> None:
    """Written aside and renamed."""
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(text)
    nanoseconds = round(at.replace(tzinfo=UTC).timestamp() * 1000) * 10**6
    os.utime(aside, ns=(nanoseconds, nanoseconds))
    os.replace(aside, path)


def _naive(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value
