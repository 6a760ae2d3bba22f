"""A pipeline whose code was changed goes on from the state it has, on real Spark."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from spark_checkpoints import Checkpoints, Landing

from tidegate import FileSource, ParquetSink, Pipeline, Previous, avg, count, max_, sum_
from tidegate.protocol.facts.errors import StateSchemaError

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]


def first(path: Path, tables: Path) -> Pipeline:
    pipeline = Pipeline("changed", parallelism=2, max_parallelism=16)
    rows = pipeline.source("rows", FileSource(str(path), format="parquet", schema="k bigint, v bigint"))
    sums = rows.key_by("k").aggregate("sums", n=count(), total=sum_("v"), most=max_("v"))
    sums.sink("sums", ParquetSink(str(tables / "sums"), mode="latest"))

    @pipeline.keyed("last", inputs=[rows], key=["k"], state="k bigint, v int, gone string")
    def last(batch: Any, state: Any) -> Any:
        return batch.groupBy("k").agg(F.max("v").cast("int").alias("v"), F.lit("x").alias("gone"))

    last.sink("last", ParquetSink(str(tables / "last"), mode="latest"))
    return pipeline


def second(path: Path, tables: Path, update: str = "k bigint, value bigint, note string, seen int") -> Pipeline:
    """An aggregate more, one less, one renamed with its operator; a column more, one less, one renamed and wider."""
    pipeline = Pipeline("changed", parallelism=2, max_parallelism=16)
    rows = pipeline.source("rows", FileSource(str(path), format="parquet", schema="k bigint, v bigint"))
    renamed = Previous("sums", {"highest": "most"})
    sums = rows.key_by("k").aggregate("totals", total=sum_("v"), mean=avg("v"), rows=count("v"), highest=max_("v"),
                                      previous=renamed)  # fmt: skip
    sums.sink("sums", ParquetSink(str(tables / "sums"), mode="latest"))

    @pipeline.keyed("last", inputs=[rows], key=["k"], state=update, defaults={"seen": 7},
                    previous=Previous(columns={"value": "v", "note": None}))  # fmt: skip
    def last(batch: Any, state: Any) -> Any:
        new = batch.groupBy("k").agg(F.max("v").alias("value"))
        known = state.select(F.col("k").alias("known"), F.col("seen").alias("before"))
        joined = new.join(known, F.col("k") == F.col("known"), "left")
        return joined.select(
            "k", "value", F.lit("new").alias("note"), (F.coalesce("before", F.lit(0)) + 1).alias("seen")
        )

    last.sink("last", ParquetSink(str(tables / "last"), mode="latest"))
    return pipeline


def current(checkpoints: Checkpoints, name: str) -> list[tuple[Any, ...]]:
    """The table as it would be shown: all that the sink has staged."""
    checkpoints.commit(name)
    return checkpoints.rows(f"sink:{name}")


def go_on(before: Checkpoints, after: Checkpoints) -> Checkpoints:
    """As the coordinator does it: by the names that operators had."""
    from tidegate.protocol.steps.restored_snapshots import restore_snapshots

    latest = completed_record(before)
    after.completed = restore_snapshots(latest, before.completed, after.graph.plan, (), False, after.graph.renamed)
    after.checkpoint_id = before.checkpoint_id
    return after


def completed_record(before: Checkpoints) -> Any:
    from records import completed

    return completed(operators=before.graph.plan)


def test_changed_code_goes_on_from_the_state_it_has(landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    rows, tables = landing("rows"), tmp_path / "tables"
    before = open_checkpoints(first(rows.path, tables))
    rows.put(k=[1, 1, 2, 3], v=[1, 5, 2, None])
    before.take()
    assert before.rows("state:sums") == [(1, 2, 6, 5), (2, 1, 2, 2), (3, 1, None, None)]

    after = go_on(before, open_checkpoints(second(rows.path, tables)))
    rows.put(k=[1], v=[9])
    after.take()
    sums = [(1, 15, 9.0, 1, 9), (2, 2, None, 0, 2), (3, None, None, 0, None)]
    assert after.rows("state:totals") == sums
    last = [(1, 9, "new", 8), (2, 2, None, 7), (3, None, None, 7)]
    assert after.rows("state:last") == last
    # the sinks of current rows have all of them in the new columns, also of keys for which nothing arrived
    assert current(after, "sums") == sums
    assert current(after, "last") == last

    again = go_on(after, open_checkpoints(second(rows.path, tables)))
    rows.put(k=[2], v=[2**31 - 1])
    again.take()
    assert again.rows("state:last") == [(1, 9, "new", 8), (2, 2**31 - 1, "new", 8), (3, None, None, 7)]
    staged = {handle.created_by for handle in again.staged("last")}
    assert staged == {2, 3} or len(staged) == 1  # not staged anew without need

    narrowed = go_on(again, open_checkpoints(second(rows.path, tables, "k bigint, value int, note string, seen int")))
    rows.put(k=[1], v=[9])
    narrowed.trigger()
    with pytest.raises(
        StateSchemaError, match=r"operator last of pipeline changed .*'value' is stored as bigint, now int"
    ):
        narrowed.attempt_once()
