"""Declared joins against the same in plain Python, whichever side comes first, and what cannot be joined."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from continuous_checkpoints import Running, restored_by
from emitting_shop import shown_in
from listed import Listed
from pyspark.sql import functions as F
from sizes import sizes
from spark_checkpoints import Checkpoints

from tidegate import CheckpointConfig, ParquetSink, Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import PipelineDefinitionError

pytestmark = pytest.mark.spark

ORDERS = "customer string, order_id bigint, amount bigint"
CUSTOMERS = "customer string, name string, changed timestamp"
Row = tuple[Any, ...]


def joins(orders: Any, customers: Any, tables: Path, parallelism: int = 2, **config: Any) -> Pipeline:
    """Each kind of join of the same two streams."""
    pipeline = Pipeline("joins", parallelism, max_parallelism=16, checkpoints=CheckpointConfig(**config))
    bought, known = pipeline.source("orders", orders), pipeline.source("customers", customers)
    for name, how in (
        ("every_pair", {}),
        ("latest", {"keep": "changed"}),
        ("left", {"how": "left", "keep": "changed"}),
    ):
        joined = bought.join(known, name=f"join_{name}", key=["customer"], **how)
        joined.sink(name, ParquetSink(str(tables / name)))
    return pipeline


class Plain:
    """The three joins, checkpoint by checkpoint."""

    def __init__(self) -> None:
        self.orders: list[Row] = []
        self.customers: list[Row] = []
        self.waiting: list[Row] = []
        self.latest: Counter[Row] = Counter()
        self.left: Counter[Row] = Counter()

    def arrive(self, orders: list[Row], customers: list[Row]) -> None:
        self.orders += orders
        self.customers += customers
        best: dict[Any, Row] = {}
        for customer, name, changed in sorted(self.customers, key=lambda row: row[2]):
            best[customer] = (name, changed)
        best.pop(None, None)
        self.left += Counter((*order, *best.get(order[0], (None, None))) for order in orders)
        self.waiting += orders
        self.latest += Counter((*order, *best[order[0]]) for order in self.waiting if order[0] in best)
        self.waiting = [order for order in self.waiting if order[0] not in best]

    def every_pair(self) -> Counter[Row]:
        return Counter(
            (*order, *other[1:])
            for order in self.orders
            for other in self.customers
            if order[0] == other[0] and order[0] is not None
        )


class Deliveries:
    def __init__(self, seed: int) -> None:
        self.random, self.number = Random(seed), 0

    def orders(self) -> list[Row]:
        self.number += 4
        people = ["ann", "bob", "cyd", None]
        return [(self.random.choice(people), self.number + each, self.random.randint(1, 9)) for each in range(4)]

    def customers(self) -> list[Row]:
        at = datetime(2026, 1, 1) + timedelta(days=self.random.randint(-500, 500), microseconds=self.number)
        customer = self.random.choice(["ann", "bob", "cyd", None])
        return [(customer, f"{customer} {self.number}", at)] * self.random.choice([0, 1, 1])


def put(source: Listed, rows: list[Row]) -> None:
    source.put(0, *(tuple(str(v) if isinstance(v, datetime) else v for v in row) for row in rows))


@sizes("checkpoints_taken", sample=3, whole=8)
def test_joins_agree_with_the_plain_computation_at_any_parallelism(
    checkpoints_taken: int, spark: Any, tmp_path: Path
) -> None:
    orders, customers = Listed(ORDERS, step=100), Listed(CUSTOMERS, step=100)
    plain, deliveries, completed, graph = Plain(), Deliveries(1), {}, None
    for number, parallelism in enumerate((2, 3, 1, 2, 2, 4, 1, 3)[:checkpoints_taken], 1):
        pipeline = joins(orders, customers, tmp_path, parallelism)
        if graph is not None:
            completed = restored_by(graph, compile_graph(pipeline), completed)
        checkpoints = Checkpoints(pipeline, spark, tmp_path, completed, checkpoint_id=number - 1)
        arrived = deliveries.orders(), deliveries.customers()
        put(orders, arrived[0])
        put(customers, arrived[1])
        plain.arrive(*arrived)
        checkpoints.take()
        for sink in checkpoints.graph.sinks:
            checkpoints.commit(sink.name)
        completed, graph = checkpoints.completed, checkpoints.graph
        assert shown_in(tmp_path / "every_pair") == plain.every_pair()
        assert shown_in(tmp_path / "latest") == plain.latest
        assert shown_in(tmp_path / "left") == plain.left
    assert plain.latest
    assert plain.waiting
    assert None in {row[3] for row in plain.left}


@pytest.mark.long
def test_a_continuous_run_joins_every_pair_once_however_often_it_is_killed(spark: Any, tmp_path: Path) -> None:
    orders, customers = Listed(ORDERS, step=2), Listed(CUSTOMERS, step=1)
    running = Running(joins(orders, customers, tmp_path, unaligned=True), spark, tmp_path, max_batch_bytes=2)
    plain, deliveries = Plain(), Deliveries(6)
    for number in range(4):
        arrived = deliveries.orders(), deliveries.customers()
        put(orders, arrived[0])
        put(customers, arrived[1])
        plain.arrive(*arrived)
        running.round()
        running.begin()
        running.until_acknowledged()
        if number % 2:
            running.complete()
        running.restart()
    running.until_idle()
    running.take()
    assert shown_in(tmp_path / "every_pair") == plain.every_pair()
    assert sum(shown_in(tmp_path / "latest").values()) == plain.latest.total()


VALUES = [
    ("decimal(20,3)", Decimal("-12345678901234567.891")),
    ("timestamp", "timestamp'1899-12-31 23:59:59.999999'"),
    ("timestamp_ntz", "timestamp_ntz'2026-03-29 02:30:00.000001'"),
    ("date", "date'0001-01-01'"),
    ("double", "double(0.1) + double(0.2)"),
    ("float", "float('NaN')"),
    ("binary", "X'00FF10'"),
    ("boolean", "true"),
    ("tinyint", "-128Y"),
    ("string", "'a \"quoted\" é\\\\ [1, null]'"),
    ("interval day to second", "interval '1 02:03:04.000005' day to second"),
    ("bigint", "cast(null as bigint)"),
]


def test_what_waits_comes_back_as_it_was(spark: Any, tmp_path: Path) -> None:
    """Through the text that state holds of it."""
    lefts, rights = Listed("k bigint"), Listed("k bigint")
    pipeline = Pipeline("types", parallelism=1)
    columns = [f"cast({value} as {type_}) as c{at}" for at, (type_, value) in enumerate(VALUES)]
    one = pipeline.source("lefts", lefts).transform(lambda df: df.selectExpr("k", *columns))
    other = pipeline.source("rights", rights).transform(lambda df: df.selectExpr("k", "1 as found"))
    joined = one.join(other, name="joined", key=["k"])
    strings = joined.transform(lambda df: df.withColumn("c10", F.col("c10").cast("string")))
    strings.sink("joined", ParquetSink(str(tmp_path / "joined")))
    checkpoints = Checkpoints(pipeline, spark, tmp_path)
    lefts.put(0, (1,), (2,))
    checkpoints.take()
    assert checkpoints.rows("sink:joined") == []
    rights.put(0, (1,))
    checkpoints.take()
    frame = checkpoints.frame("sink:joined")
    expected = spark.range(1).selectExpr("1L as k", *columns, "1 as found")
    same = expected.withColumn("c10", F.col("c10").cast("string"))
    assert repr(frame.collect()) == repr(same.collect())
    assert [field.dataType for field in frame.schema] == [field.dataType for field in same.schema]


def with_nested(df: Any) -> Any:
    return df.select("customer", F.array("amount").alias("amounts"))


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "no such kind": (lambda o, c: o.join(c, name="j", key=["customer"], how="right"), "how='right'.*Swap"),
    "left, all kept": (lambda o, c: o.join(c, name="j", key=["customer"], how="left"), "left join that keeps all"),
    "the key kept": (lambda o, c: o.join(c, name="j", key=["customer"], keep="customer"), "a column of the key"),
    "no key": (lambda o, c: o.join(c, name="j", key=[]), "key of .* must name at least one column"),
    "a key that is not there": (
        lambda o, c: o.join(c.transform(lambda df: df), name="j", key=["order_id"]),
        "operator 'j' of pipeline 'joins' joins by 'order_id', but its right side has only customer, name, changed",
    ),
    "keys of two types": (
        lambda o, c: o.transform(lambda df: df.withColumn("customer", F.lit(1))).join(c, name="j", key=["customer"]),
        "'customer', which is int on the left side and string on the right",
    ),
    "one name on both sides": (
        lambda o, c: o.join(c.transform(lambda df: df.withColumn("Amount", F.lit(1))), name="j", key=["customer"]),
        "Both sides of operator 'j' .* have a column amount",
    ),
    "nothing to keep by": (
        lambda o, c: o.join(c.transform(lambda df: df), name="j", key=["customer"], keep="updated"),
        "largest 'updated', but its right side has no updated, only customer, name, changed",
    ),
    "nested values": (
        lambda o, c: o.transform(with_nested).join(c, name="j", key=["customer"]),
        "'amounts' has the type list.*which keyed state cannot hold",
    ),
}


@pytest.mark.parametrize(("declare", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_joined_is_refused(declare: Any, message: str, spark: Any, tmp_path: Path) -> None:
    orders, customers, pipeline = Listed(ORDERS), Listed(CUSTOMERS), Pipeline("joins")
    joined = declare(pipeline.source("orders", orders), pipeline.source("customers", customers))
    joined.sink("joined", ParquetSink(str(tmp_path / "joined")))
    put(orders, [("ann", 1, 1)])
    with pytest.raises(PipelineDefinitionError, match=message):
        Checkpoints(pipeline, spark, tmp_path).take()
