"""A small pipeline on real files with every kind of vertex, and what its tables must hold, computed without it."""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.dataset as ds

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, max_, sum_
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.paths import marker_path
from tidegate.protocol.facts.records import HandleKind
from tidegate.protocol.recovery.ownership import storage_mark

#: A project's pyproject.toml, and its module `shop`.
PROJECT = """
[tool.tidegate.pipelines]
orders = "shop:pipeline"
"""
SHOP = """
import os
from pathlib import Path
from orders import orders_pipeline

pipeline = orders_pipeline(Path(os.environ["TIDEGATE_HOME"]))
"""

SCHEMA = "customer string, amount bigint"
Row = tuple[str | None, int]


def orders_pipeline(
    home: Path,
    name: str = "orders",
    wrap_sink: Callable[[Any], Any] = lambda sink: sink,
    slow: Callable[[Any], Any] | None = None,
    parallelism: int = 2,
    splits: int = 2,
    **config: Any,
) -> Pipeline:
    """Declared aggregates after a transform and straight from the source, with appending and latest sinks, a user
    function, and a sink of bare rows. `slow` transforms all of it."""
    pipeline = Pipeline(
        name, parallelism=parallelism, max_parallelism=16, checkpoints=CheckpointConfig(**{"retained": 2} | config)
    )
    orders = pipeline.source("orders", FileSource(str(home / "landing"), format="csv", schema=SCHEMA, splits=splits))
    if slow is not None:
        orders = orders.transform(slow)
    paid = orders.transform(lambda df: df.where("amount > 0"))
    totals = paid.key_by("customer").aggregate("totals", n=count(), total=sum_("amount"), worst=max_("amount"))

    @pipeline.keyed("balance", inputs=[paid], key=["customer"], state="customer string, balance bigint")
    def balance(batch: Any, state: Any) -> Any:
        from pyspark.sql import functions as F

        added = batch.groupBy("customer").agg(F.sum("amount").alias("added"))
        known = state.withColumnRenamed("customer", "known")
        joined = added.join(known, F.col("customer").eqNullSafe(F.col("known")), "left")
        return joined.select("customer", (F.coalesce("balance", F.lit(0)) + F.col("added")).alias("balance"))

    visits = orders.key_by("customer").aggregate("visits", n=count())
    visits.sink("visits", wrap_sink(ParquetSink(str(home / "tables/visits"), mode="latest")))
    totals.sink("totals_log", wrap_sink(ParquetSink(str(home / "tables/totals_log"))))
    totals.sink("totals", wrap_sink(ParquetSink(str(home / "tables/totals"), mode="latest")))
    balance.sink("balance_log", wrap_sink(ParquetSink(str(home / "tables/balance_log"))))
    orders.sink("seen", wrap_sink(ParquetSink(str(home / "tables/seen"))))
    return pipeline


class Shop:
    """Writes order files and knows what the tables must be once all of them are through."""

    def __init__(self, home: Path, seed: int = 1) -> None:
        self.home = home
        self.rows: list[Row] = []
        self._files = 0
        self._random = Random(seed)
        (home / "landing").mkdir(parents=True, exist_ok=True)

    def deliver(self, files: int = 2, rows: int = 5) -> None:
        """A few new files; written aside and renamed, as a careful producer does."""
        for _ in range(files):
            self._files += 1
            batch: list[Row] = [
                (self._random.choice(["ann", "bob", "cyd", None]), self._random.randint(-2, 9)) for _ in range(rows)
            ]
            aside = self.home / "landing" / f".{self._files}.tmp"
            with aside.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["customer", "amount"])
                writer.writerows(("" if customer is None else customer, amount) for customer, amount in batch)
            os.rename(aside, self.home / "landing" / f"{self._files:04}.csv")
            self.rows += batch

    def totals(self) -> dict[str | None, tuple[int, int, int]]:
        result: dict[str | None, tuple[int, int, int]] = {}
        for customer, amount in self.rows:
            if amount > 0:
                n, total, worst = result.get(customer, (0, 0, 0))
                result[customer] = (n + 1, total + amount, max(worst, amount))
        return result


def rows_of(path: Path) -> list[dict[str, Any]]:
    """A table as any reader of Parquet sees it: hidden names are not there."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = ds.dataset(str(path), format="parquet", partitioning="hive").to_table().to_pylist()
    return rows


def newest(rows: Sequence[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    """The row of the highest checkpoint for each key of an appended table; no checkpoint may hold a key twice."""
    result: dict[Any, dict[str, Any]] = {}
    seen = set()
    for row in sorted(rows, key=lambda row: row["checkpoint"]):
        assert (row["checkpoint"], row[key]) not in seen, f"{row} is there twice"
        seen.add((row["checkpoint"], row[key]))
        result[row[key]] = row
    return result


def check_tables_of(shop: Shop, rows: list[Row]) -> None:
    """Every table against the plain computation over these rows, delivered up to some moment."""
    delivered, shop.rows = shop.rows, rows
    try:
        check_tables(shop)
    finally:
        shop.rows = delivered


def check_tables(shop: Shop) -> None:
    """Every table against the plain computation over all rows delivered."""
    tables = shop.home / "tables"
    expected = shop.totals()
    current = rows_of(tables / "totals" / "current")
    assert len(current) == len(expected)
    assert {row["customer"]: (row["n"], row["total"], row["worst"]) for row in current} == expected
    logged = newest(rows_of(tables / "totals_log"), "customer")
    assert {key: (row["n"], row["total"], row["worst"]) for key, row in logged.items()} == expected
    balances = newest(rows_of(tables / "balance_log"), "customer")
    assert {key: row["balance"] for key, row in balances.items()} == {key: value[1] for key, value in expected.items()}
    visits = {row["customer"]: row["n"] for row in rows_of(tables / "visits" / "current")}
    assert visits == Counter(customer for customer, _ in shop.rows)
    seen = sorted(json.dumps([row["customer"], row["amount"]]) for row in rows_of(tables / "seen"))
    assert seen == sorted(json.dumps(list(row)) for row in shop.rows)


def files_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


def check_storage(store: Any, pipeline_id: str, storage: Path, home: Path) -> None:
    """No file is left that no retained checkpoint refers to, and none is missing."""
    live: set[str] = set()
    staged: set[str] = set()
    for record in store.history(pipeline_id, 10_000):
        if record.status is not Status.COMPLETED:
            continue
        live.add(record.metadata_path)
        marker = marker_path(pipeline_id, record.checkpoint_id)
        if record.notified_at is not None or (storage / marker).exists():
            live.add(marker)
        for known in store.subtasks(pipeline_id, record.checkpoint_id).values():
            for handle in known.snapshot.handles:
                if handle.kind in {HandleKind.RUN, HandleKind.POSITION}:
                    live.add(handle.path)
                elif handle.kind is HandleKind.STAGED:
                    staged.add(handle.path)
    with store.transaction(pipeline_id) as tx:
        live |= {compaction.handle.path for compaction in tx.compactions()}
        assert tx.pending_deletions(10) == []
    assert files_below(storage) - {storage_mark(pipeline_id)} == live
    for sink in (home / "tables").iterdir():
        left = {path for path in files_below(sink) if path.startswith("_staging")}
        assert left <= staged, f"{sink.name} still holds {left - staged}"
