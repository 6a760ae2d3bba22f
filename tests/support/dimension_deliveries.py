"""Versions of a file of customers, as a shop might deliver them, and tables held against the plain computation."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from listed import Listed
from orders import rows_of

from dimensions import plain
from dimensions.shop import ORDERS, customers_source, dimensions_pipeline
from tidegate import CheckpointConfig, Pipeline

PEOPLE = ["ann", "bob", "cyd", "dan", "eve", "fay"]
CITIES = ["Bern", "Rome", "Oslo", None]
T0 = datetime(2026, 1, 1)
JOINED = ("customer", "order_id", "amount", "at", "name", "city")


class Shop:
    """Orders and customers as they arrive, and the tables of the example as they must be."""

    def __init__(self, root: Path, seed: int, step: int = 100) -> None:
        self.customers = Customers(root / "dim" / "customers.csv", seed)
        self.random, self.tables = Random(seed), root / "tables"
        self.source = customers_source(self.customers.path)
        self.orders = Listed(ORDERS, step=step)
        self.put: list[plain.Row] = []
        self.read: list[plain.Row] = []
        self.then: list[plain.Row] = []

    def pipeline(self, parallelism: int = 2, **config: Any) -> Pipeline:
        checkpoints = CheckpointConfig(**config)
        return dimensions_pipeline(self.source, self.orders, self.tables, parallelism, checkpoints)

    def buy(self, orders: int = 4) -> None:
        """At times of yesterday and today, and once before everything."""
        random, new = self.random, []
        for _ in range(orders):
            at = self.customers.now - timedelta(hours=random.choice([0, 1, 30, 24 * 400]))
            new.append((random.choice([*PEOPLE, None]), len(self.put) + len(new), random.randint(1, 9), at))
        self.put += new
        self.orders.put(0, *((order_id, customer, amount, str(at)) for customer, order_id, amount, at in new))

    def took(self, version: plain.Version | None) -> None:
        """A checkpoint has read a version, and the orders that had arrived."""
        versions, fresh = self.customers.read, self.put[len(self.read) :]
        versions += [] if version is None else [version]
        self.read += plain.with_customer(fresh, versions[-1][1] if versions else {}, left=True)
        self.then += plain.then(fresh, versions)

    def check(self) -> None:
        self.customers.check(self.tables)
        self.check_updated()
        for name, expected in (("read", self.read), ("then", self.then)):
            same(self.tables / name, JOINED, expected)

    def check_updated(self) -> None:
        latest = self.customers.read[-1][1] if self.customers.read else {}
        same(self.tables / "now", JOINED, plain.with_customer(self.put, latest, left=True))


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
            same(tables / name, names, expected)


def same(table: Path, names: Sequence[str], expected: Sequence[plain.Row]) -> None:
    shown = [tuple(_naive(row[column]) for column in names) for row in rows_of(table)]
    assert sorted(shown, key=repr) == sorted(expected, key=repr), table.name


def put(path: Path, text: str, at: datetime) -> None:
    """Written aside and renamed."""
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(text)
    nanoseconds = round(at.replace(tzinfo=UTC).timestamp() * 1000) * 10**6
    os.utime(aside, ns=(nanoseconds, nanoseconds))
    os.replace(aside, path)


def _naive(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) else value
