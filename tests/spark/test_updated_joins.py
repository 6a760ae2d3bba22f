"""Updates of joined rows against the join of all rows, whatever came when: each function call by itself."""

from datetime import datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidegate.pipeline.joins import Join
from tidegate.spark.driver import updated_joins
from tidegate.spark.driver.join_columns import JoinColumns
from tidegate.spark.driver.joins import joined

pytestmark = pytest.mark.spark

LEFT = "order_id bigint, customer string, amount bigint"
KEPT = "customer string, city string, changed bigint"
VERSIONED = "customer string, city string, _change string, _valid_from timestamp"
PEOPLE = ["ann", "bob", None]
T0 = datetime(2026, 1, 1)


class Operator:
    """The state of a join, and the table behind it."""

    def __init__(self, spark: Any, join: Join) -> None:
        self.spark, self.right = spark, VERSIONED if join.versioned else KEPT
        left, right = (StructType.fromDDL(ddl) for ddl in (LEFT, self.right))
        self.columns = JoinColumns("test", join, ["customer"], left, right)
        self.state: dict[Any, tuple[Any, ...]] = {}
        self.table: dict[int, tuple[Any, ...]] = {}
        self.latest: dict[int, int] = {}

    def run(self, left: list[tuple[Any, ...]], right: list[tuple[Any, ...]]) -> int:
        frames = ((left, LEFT), (right, self.right), (list(self.state.values()), self.columns.state))
        update = joined(self.columns, *(self.spark.createDataFrame(rows, schema) for rows, schema in frames))
        rows, state = update.rows.collect(), update.state.collect()
        assert len({row["customer"] for row in state}) == len(state)
        self.state |= {row["customer"]: tuple(row) for row in state}
        assert len({row["order_id"] for row in rows}) == len(rows)
        for row in rows:
            assert row["_order"] > self.latest.get(row["order_id"], 0) or row["customer"] is None
            self.latest[row["order_id"]] = row["_order"]
            shown = (row["order_id"], row["customer"], row["amount"], row["city"])
            self.table.pop(row["order_id"], None)
            if row["_change"] != "delete":
                self.table[row["order_id"]] = shown
        return len(rows)


def follow(spark: Any, *kinds: tuple[str, bool]) -> None:
    """Raises `AssertionError` if the results are not those of a join of all rows."""
    for seed, (how, versioned) in enumerate(kinds):
        join = Join(how, None if versioned else "changed", versioned, row_key=("order_id",))
        operator, random = Operator(spark, join), Random(seed)
        orders: dict[int, tuple[Any, ...]] = {}
        cities: dict[Any, str] = {}
        for step in range(1, 6):
            left = [(len(orders) + at, random.choice(PEOPLE), random.randint(1, 9)) for at in range(2)]
            if step > 2:  # one comes again, with another amount
                again = random.choice(sorted(orders))
                left.append((again, orders[again][1], 100 + step))
            orders |= {order[0]: order for order in left}
            customer, city = random.choice(["ann", "bob"]), f"city {step}"
            is_gone = versioned and step % 2 == 0
            if is_gone:
                cities.pop(customer, None)
            else:
                cities[customer] = city
            change = ("delete" if is_gone else "update", T0 + timedelta(days=step)) if versioned else (step,)
            operator.run(left, [(customer, city, *change)])
            expected = {id_: (*order, cities.get(order[1])) for id_, order in orders.items()}
            if how == "inner":
                expected = {id_: row for id_, row in expected.items() if row[3] is not None}
            assert operator.table == expected, (how, versioned, step)
        assert operator.run([], []) == 0


def unchanged(columns: Any, right: Any, state: Any) -> Any:
    return KNOWN_RIGHTS(columns, right, state).withColumn("has_changed", F.lit(False))


def first(columns: Any, rows: Any) -> Any:
    return F.when(F.size(rows) > 0, rows[0])


KNOWN_RIGHTS = updated_joins._rights
MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "a customer that is gone is still there": (JoinColumns, "is_gone", lambda columns, row: F.lit(False)),
    "the first version counts for ever": (JoinColumns, "latest", first),
    "a change of the right side updates nothing": (updated_joins, "_rights", unchanged),
    "the rows of the left side are forgotten": (
        updated_joins,
        "_lefts",
        lambda columns, left, state: KNOWN_LEFTS(columns, left, state.where("false")),
    ),
}
KNOWN_LEFTS = updated_joins._lefts


def is_noticed(spark: Any) -> bool:
    try:
        follow(spark, ("inner", True))
    except AssertionError:
        return True
    return False


def test_results_follow_both_sides_and_mistakes_are_noticed(spark: Any) -> None:
    follow(spark, ("inner", True), ("left", True), ("inner", False), ("left", False))
    for mistake, (owner, name, wrong) in MISTAKES.items():
        with patch.object(owner, name, wrong):
            assert is_noticed(spark), f"nobody noticed that {mistake}"
