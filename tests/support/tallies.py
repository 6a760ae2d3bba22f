"""A small pipeline for continuous runs, a longer one, and what their tables must hold, computed without Spark."""

from collections import Counter
from pathlib import Path
from typing import Any

from listed import Listed
from orders import newest, rows_of

from tidegate import CheckpointConfig, ParquetSink, Pipeline, count, max_, sum_

PAYMENTS = "customer string, amount bigint"
NOTES = "customer string, note string"
EXACTLY_ONCE = CheckpointConfig()
AT_LEAST_ONCE = CheckpointConfig(mode="AT_LEAST_ONCE")
UNALIGNED = CheckpointConfig(unaligned=True)
TIMED = CheckpointConfig(unaligned=True, aligned_checkpoint_timeout="10 ms")


def payments(splits: int = 2, step: int = 3) -> Listed:
    return Listed(PAYMENTS, [[] for _ in range(splits)], step)


def tally(source: Any, tables: Path, checkpoints: CheckpointConfig = EXACTLY_ONCE, parallelism: int = 2) -> Pipeline:
    """Totals a customer in a log and a table, and the rows as they came."""
    pipeline = Pipeline("tally", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    rows = pipeline.source("rows", source)
    totals = rows.key_by("customer").aggregate("totals", n=count(), total=sum_("amount"))
    totals.sink("log", ParquetSink(str(tables / "log")))
    totals.sink("current", ParquetSink(str(tables / "current"), mode="latest"))
    rows.sink("seen", ParquetSink(str(tables / "seen")))
    return pipeline


def chain(rows: Any, notes: Any, tables: Path, checkpoints: CheckpointConfig = EXACTLY_ONCE) -> Pipeline:
    """Operators behind an operator, a function of two inputs, transforms in between, and sinks of every kind."""
    pipeline = Pipeline("chain", parallelism=2, max_parallelism=16, checkpoints=checkpoints)
    source = pipeline.source("rows", rows)
    noted = pipeline.source("notes", notes)
    totals = source.key_by("customer").aggregate("totals", n=count(), total=sum_("amount"))
    by_length = totals.transform(lambda df: df.selectExpr("length(customer) as length", "n", "customer"))
    widest = by_length.key_by("length").aggregate("widest", n=max_("n"), last=max_("customer"))

    @pipeline.keyed(
        "accounts", inputs=[totals, noted], key=["customer"], state="customer string, n bigint, note string"
    )
    def accounts(changed: Any, written: Any, state: Any) -> Any:
        from pyspark.sql import functions as F

        parts = [
            changed.selectExpr("customer", "n", "null as note"),
            written.selectExpr("customer", "null as n", "note"),
        ]
        together = state.unionByName(parts[0]).unionByName(parts[1])
        return together.groupBy("customer").agg(F.max("n").alias("n"), F.max("note").alias("note"))

    totals.sink("log", ParquetSink(str(tables / "log")))
    totals.transform(lambda df: df.where("n > 1")).sink("often", ParquetSink(str(tables / "often")))
    widest.sink("widest", ParquetSink(str(tables / "widest"), mode="latest"))
    accounts.sink("accounts", ParquetSink(str(tables / "accounts"), mode="latest"))
    source.sink("seen", ParquetSink(str(tables / "seen")))
    return pipeline


def totals_of(rows: list[tuple[Any, ...]]) -> dict[Any, tuple[int, int]]:
    counts, sums = Counter(customer for customer, _ in rows), Counter[Any]()
    for customer, amount in rows:
        sums[customer] += amount
    return {customer: (n, sums[customer]) for customer, n in counts.items()}


def seen_in(tables: Path) -> Counter[tuple[Any, ...]]:
    return Counter((row["customer"], row["amount"]) for row in rows_of(tables / "seen"))


def current_in(tables: Path, name: str = "current") -> list[tuple[Any, ...]]:
    """The rows of a table, sorted."""
    return sorted((tuple(row.values()) for row in rows_of(tables / name / "current")), key=repr)


def logged_in(tables: Path, name: str = "log") -> dict[Any, tuple[int, int]]:
    """The newest row of each customer."""
    found = newest(rows_of(tables / name), "customer")
    return {customer: (row["n"], row["total"]) for customer, row in found.items()}


def check_tally(rows: list[tuple[Any, ...]], tables: Path) -> None:
    """Every table of `tally` against the plain computation: nothing is missing, nothing is there twice."""
    expected = totals_of(rows)
    assert seen_in(tables) == Counter(rows)
    assert logged_in(tables) == expected
    assert current_in(tables) == sorted(((key, *value) for key, value in expected.items()), key=repr)


def check_chain(rows: list[tuple[Any, ...]], notes: list[tuple[Any, ...]], tables: Path) -> None:
    """The same of `chain`."""
    expected = totals_of(rows)
    assert seen_in(tables) == Counter(rows)
    assert logged_in(tables) == expected
    assert logged_in(tables, "often") == {key: value for key, value in expected.items() if value[0] > 1}
    lengths: dict[Any, set[Any]] = {}
    for customer in expected:
        lengths.setdefault(None if customer is None else len(customer), set()).add(customer)
    widest = [
        (length, max(expected[c][0] for c in customers), None if length is None else max(customers))
        for length, customers in lengths.items()
    ]
    assert current_in(tables, "widest") == sorted(widest, key=repr)
    written: dict[Any, str] = {}
    for customer, note in notes:
        written[customer] = max(note, written.get(customer, ""))
    accounts = [(c, expected[c][0] if c in expected else None, written.get(c)) for c in {*expected, *written}]
    assert current_in(tables, "accounts") == sorted(accounts, key=repr)
