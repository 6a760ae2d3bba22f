"""Die before and after every effect of a whole checkpoint, run again, and compare with an uninterrupted run."""

from collections import Counter
from datetime import timedelta

import pytest
from orders import SCHEMA, Shop, check_storage, check_tables, orders_pipeline, rows_of
from sizes import sizes
from window_clicks import ClickShop
from worlds import Judge

from tidegate import FileSource, ParquetSink, Pipeline, Update, count
from tidegate.protocol.facts.lifecycle import Status
from tidegate.settings import Settings
from tidegate.testing.crashing import MortalPipeline, sweep
from tidegate.testing.effects import Crash

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]  # some hundred whole checkpoints


def runner_of(tmp_path, store, spark, pipeline=orders_pipeline):
    settings = Settings(tmp_path, str(tmp_path / "checkpoints"), str(tmp_path / "cache"), tmp_path / "docs")
    return MortalPipeline(pipeline(tmp_path), store, spark, settings, lambda *_: Judge(True))


def check_cleaned(runner, store, home):
    """Nothing is left that no checkpoint refers to."""
    runner.effects.die(None)
    runner.clock.shift += timedelta(hours=2)
    runner.coordinator.clean()
    check_storage(store, runner.coordinator.pipeline_id, home / "checkpoints", home)


@sizes("step", sample=24, whole=1)
def test_a_crash_before_or_after_any_effect_costs_nothing(step, tmp_path, store, spark):
    shop, runner = Shop(tmp_path), runner_of(tmp_path, store, spark)
    runs, crashes = sweep(runner, lambda _: shop.deliver(files=1), lambda _: check_tables(shop), step)
    assert crashes > 40 // step, f"only {crashes} crash points were met: {runner.effects.log}"
    records = store.history("orders", 1000)
    assert all(record.status is not Status.FAILED for record in records)
    assert len(records) == 1 + runs, "a repeated request took a second checkpoint"
    check_cleaned(runner, store, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("step", [2])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_crash_and_then_another_request_costs_nothing_either(step, tmp_path, store, spark, before):
    """The run that died is aborted; the next one must take its data, all of it, once."""
    shop, runner = Shop(tmp_path, seed=2), runner_of(tmp_path, store, spark)
    for number in range(0, 30, step):
        shop.deliver(files=1)
        runner.effects.die(number, before)
        try:
            runner.run(f"dies-{number}")
        except Crash:
            runner.effects.die(None)
            runner.clock.shift += timedelta(minutes=11)
            runner.run(f"next-{number}")
        check_tables(shop)
    check_cleaned(runner, store, tmp_path)


def raffle(home):
    """Each order draws a ticket, of which two tables and an operator must see the same, and one that emits: what it
    passes on goes to a table and to a further operator."""
    pipeline = Pipeline("raffle", parallelism=2, max_parallelism=16)
    orders = pipeline.source("orders", FileSource(str(home / "landing"), format="csv", schema=SCHEMA))
    tickets = orders.transform(lambda df: df.selectExpr("*", "uuid() as id"), deterministic=False, name="tickets")
    tickets.sink("tickets", ParquetSink(str(home / "tables/tickets")))
    stubs = tickets.transform(lambda df: df.select("id"))
    stubs.sink("stubs", ParquetSink(str(home / "tables/stubs")))
    uses = tickets.key_by("id").aggregate("uses", n=count())
    uses.sink("uses", ParquetSink(str(home / "tables/uses"), mode="latest"))

    @pipeline.keyed(
        "numbered",
        inputs=[tickets],
        key=["customer"],
        state="customer string, n bigint",
        output="id string, customer string, after bigint",
    )
    def numbered(batch, state):
        """Each ticket, and how many the customer had before these."""
        counted = batch.groupBy("customer").agg({"*": "count"}).toDF("customer", "n")
        before = state.unionByName(batch.selectExpr("customer", "0L as n"))
        after = before.groupBy("customer").agg({"n": "sum"}).toDF("who", "after")
        rows = batch.join(after, batch["customer"].eqNullSafe(after["who"])).select("id", "customer", "after")
        return Update(state.unionByName(counted).groupBy("customer").agg({"n": "sum"}).toDF("customer", "n"), rows)

    numbered.sink("numbered", ParquetSink(str(home / "tables/numbered")))
    emitted = numbered.key_by("id").aggregate("emitted", n=count())
    emitted.sink("emitted", ParquetSink(str(home / "tables/emitted"), mode="latest"))
    return pipeline


def check_raffle(shop):
    tables = shop.home / "tables"
    tickets = rows_of(tables / "tickets")
    assert Counter((row["customer"], row["amount"]) for row in tickets) == Counter(shop.rows)
    drawn = Counter(row["id"] for row in tickets)
    assert set(drawn.values()) == {1}
    assert Counter(row["id"] for row in rows_of(tables / "stubs")) == drawn
    assert {row["id"]: row["n"] for row in rows_of(tables / "uses" / "current")} == drawn
    numbered = rows_of(tables / "numbered")
    assert Counter(row["id"] for row in numbered) == drawn
    assert {row["id"]: row["n"] for row in rows_of(tables / "emitted" / "current")} == drawn
    before = Counter()
    for checkpoint in sorted({row["checkpoint"] for row in numbered}):
        rows = [row for row in numbered if row["checkpoint"] == checkpoint]
        assert {(row["customer"], row["after"]) for row in rows} == {
            (customer, before[customer]) for customer in {row["customer"] for row in rows}
        }
        before += Counter(row["customer"] for row in rows)


@sizes("step", sample=24, whole=1)
def test_everybody_sees_what_a_step_drew_wherever_it_crashes(step, tmp_path, store, spark):
    shop, runner = Shop(tmp_path, seed=3), runner_of(tmp_path, store, spark, raffle)
    _, crashes = sweep(runner, lambda _: shop.deliver(files=1), lambda _: check_raffle(shop), step)
    assert crashes > 20 // step, f"only {crashes} crash points were met: {runner.effects.log}"
    check_cleaned(runner, store, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("step", [3])
def test_each_window_is_shown_once_wherever_it_crashes(step, tmp_path, store, spark):
    shop = ClickShop(tmp_path, seed=4)
    runner = runner_of(tmp_path, store, spark, lambda home: shop.pipeline())
    _, crashes = sweep(runner, lambda _: shop.deliver(), lambda _: shop.check(), step)
    assert crashes > 30 // step, f"only {crashes} crash points were met: {runner.effects.log}"
    check_cleaned(runner, store, tmp_path)
