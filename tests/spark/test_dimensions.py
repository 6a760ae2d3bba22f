"""A file that is delivered whole every day: its current rows and its history, whatever happens in between."""

from pathlib import Path
from typing import Any

import pytest
from dimension_deliveries import Shop
from dying_checkpoints import DiedError, attempt_until, finalize, rescaled
from spark_checkpoints import Checkpoints

from dimensions.shop import customers_source
from tidegate import Pipeline
from tidegate.protocol.facts.errors import MalformedRowsError, SourceChangedError

pytestmark = pytest.mark.spark


def take(checkpoints: Checkpoints) -> None:
    checkpoints.trigger()
    checkpoints.attempt_once()
    finalize(checkpoints)


def test_tables_follow_the_versions_that_were_read_through_kills_restores_and_other_parallelisms(
    spark: Any, tmp_path: Path
) -> None:
    shop = Shop(tmp_path, seed=1)
    customers = shop.customers
    checkpoints, kept = Checkpoints(shop.pipeline(), spark, tmp_path), {}
    for number, parallelism in enumerate((2, 3, 1), 1):
        if parallelism != checkpoints.pipeline.parallelism:
            checkpoints = rescaled(checkpoints, shop.pipeline(parallelism))
        version = customers.deliver()
        shop.buy()
        checkpoints.trigger()
        if number > 1:  # killed when it is on record what was read; the file is replaced before the next attempt
            with pytest.raises(DiedError):
                attempt_until(checkpoints, number=number - 1, before=False)
            customers.deliver()
        checkpoints.attempt_once()
        shop.took(version)
        finalize(checkpoints)
        shop.check()
        kept[number] = checkpoints.completed, list(customers.read)
    customers.deliver()
    checkpoints.take()
    customers.deliver()
    version = customers.deliver()  # two between two checkpoints: the first has never been there
    checkpoints.completed, customers.read = kept[3]  # restored to before what was read since
    shop.buy(8)
    take(checkpoints)
    shop.took(version)
    shop.check()
    customers.path.unlink()  # no deletion of rows
    checkpoints.take()
    assert checkpoints.rows("state:current")
    [handle] = next(each.handles for id_, each in checkpoints.completed.items() if id_.operator_id == "customers")
    assert handle.created_by < checkpoints.checkpoint_id


def test_a_version_that_cannot_be_meant_is_refused_each_time_it_is_read(spark: Any, tmp_path: Path) -> None:
    customers = Shop(tmp_path, seed=2).customers
    pipeline = Pipeline("refusing")
    pipeline.source("customers", customers_source(customers.path)).current("current")
    checkpoints = Checkpoints(pipeline, spark, tmp_path)
    everybody = {name: (name.title(), None) for name in ("ann", "bob", "cyd", "dan")}
    customers.deliver(everybody)
    checkpoints.take()
    for content, error, message in (
        ("", SourceChangedError, r"customers.csv lacks 4 of the 4 rows .* allows 50% of them .*max_deleted=1"),
        ("ann,Ann,\n", SourceChangedError, "lacks 3 of the 4 rows"),
        ("ann,Ann,\nann,Anna,\nbob,,\ncyd,,\n", MalformedRowsError, "1 keys with more than one row.*for each customer"),
        ("ann,Ann,\nbob\n", MalformedRowsError, f"{customers.path} has a row that does not fit .* line 3"),
    ):
        customers.deliver()
        customers.path.write_text(f"customer,name,city\n{content}")
        checkpoints.trigger()
        for _ in range(2):
            with pytest.raises(error, match=message):
                checkpoints.attempt_once()
    customers.deliver(dict(list(everybody.items())[:2]))
    checkpoints.take()
    assert [row[0] for row in checkpoints.rows("state:current")] == ["ann", "bob"]
