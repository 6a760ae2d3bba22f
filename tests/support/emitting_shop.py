"""Deliveries for the examples of operators that emit, and their tables held against the plain computation."""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from listed import Listed
from orders import rows_of

from emitting import plain
from emitting.shop import CLICKS, CUSTOMERS, ORDERS, emitting_pipeline
from tidegate import CheckpointConfig, Pipeline

PEOPLE = ["ann", "bob", "cyd", "dan", "eve"]
CITIES = ["Bern", "Rome", None]
T0 = datetime(2026, 1, 1)


class Deliveries:
    """Rows as they arrive: customers often after their orders, some orders twice, the clicks of a visitor in order."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.orders: list[tuple[Any, ...]] = []
        self.customers: list[tuple[Any, ...]] = []
        self.clicks: list[tuple[Any, ...]] = []
        self.now = T0

    def more_orders(self, rows: int = 5) -> list[tuple[Any, ...]]:
        random, new = self.random, []
        for _ in range(rows):
            again = bool(self.orders) and random.random() < 0.3
            order = (len(self.orders), random.choice([*PEOPLE, None]), random.randint(1, 50))
            new.append(random.choice(self.orders) if again else order)
            self.orders.append(new[-1])
        return new

    def more_customers(self) -> list[tuple[Any, ...]]:
        unknown = sorted(set(PEOPLE) - {customer for customer, _, _ in self.customers})
        chosen = self.random.sample(unknown, min(len(unknown), self.random.choice([0, 1, 1])))
        new = [(customer, customer.title(), self.random.choice(CITIES)) for customer in chosen]
        self.customers += new
        return new

    def more_clicks(self, rows: int = 5) -> list[tuple[Any, ...]]:
        new = []
        for _ in range(rows):
            self.now += timedelta(minutes=self.random.choice([1, 10, 25, 90]))
            new.append((self.random.choice(["kim", "lee", None]), self.now))
        self.clicks += new
        return new

    def check(self, tables: Path, at_least_once: bool = False) -> None:
        """Exactly once, or at least as often."""
        closed, _ = plain.sessions(self.clicks)
        expected = {
            "once": plain.once(self.orders),
            "with_customer": plain.with_customer(self.orders, self.customers),
            "sessions": closed,
        }
        for name, rows in expected.items():
            shown = shown_in(tables / name)
            if at_least_once:
                assert not rows - shown, f"{name} misses {rows - shown}"
            else:
                assert shown == rows, f"{name} misses {rows - shown} and has too many of {shown - rows}"
        assert plain.final_places(rows_of(tables / "ranking")) == plain.ranking(self.orders, self.customers)


def shown_in(table: Path) -> Counter[tuple[Any, ...]]:
    return Counter(
        tuple(_naive(value) for name, value in row.items() if name != "checkpoint") for row in rows_of(table)
    )


def _naive(value: Any) -> Any:
    value = tuple(map(_naive, value)) if isinstance(value, list) else value
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


class Shop:
    """The pipeline of the examples, on rows that a test delivers."""

    def __init__(self, root: Path, seed: int, step: int = 100) -> None:
        self.deliveries = Deliveries(seed)
        self.sources = [Listed(schema, step=step) for schema in (ORDERS, CUSTOMERS, CLICKS)]
        self.tables = root / "tables"

    def pipeline(self, parallelism: int = 2, checkpoints: CheckpointConfig | None = None) -> Pipeline:
        return emitting_pipeline(*self.sources, self.tables, parallelism, checkpoints)

    def deliver(self) -> None:
        orders, customers, clicks = self.sources
        orders.put(0, *self.deliveries.more_orders())
        customers.put(0, *self.deliveries.more_customers())
        clicks.put(0, *((visitor, str(at)) for visitor, at in self.deliveries.more_clicks()))

    def check(self, at_least_once: bool = False) -> None:
        self.deliveries.check(self.tables, at_least_once)
