"""The shapes of `written_shapes.py` on Spark Structured Streaming, as its documentation says to write them."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import conditions
from streaming_engine import SETTINGS

EVENTS = "key bigint, value bigint, at timestamp"
OUTPUT = "key bigint, events bigint, total bigint"
_DELAY = "45 minutes"


class Streaming:
    def __init__(self, root: Path, start: Callable[[Any, Path], Any]) -> None:
        self.spark: Any = conditions.plain_session(SETTINGS)
        self.spark.conf.set("spark.sql.session.timeZone", "UTC")
        self.query: Any = start(self.spark, root)

    def take(self, number: int) -> float:
        """Windows leave in a micro-batch after that of their rows, which belongs to the epoch."""
        before = len(self.query.recentProgress)
        self.query.processAllAvailable()
        batches = self.query.recentProgress[before:]
        return sum(int(batch.durationMs["triggerExecution"]) for batch in batches) / 1000

    def stop(self) -> None:
        self.query.stop()
        self.spark.stop()


def _read(spark: Any, root: Path, name: str, schema: str, format: str = "parquet") -> Any:
    options = {"maxFilesPerTrigger": "1", "header": "true"}
    return spark.readStream.schema(schema).options(**options).format(format).load(str(root / name))


def _appended(rows: Any, root: Path, mode: str = "append") -> Any:
    writer = rows.writeStream.format("parquet").outputMode(mode).option("path", str(root / "out"))
    return writer.option("checkpointLocation", str(root / "checkpoints")).start()


def function(spark: Any, root: Path) -> Any:
    """`transformWithState` in pandas."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._totals = handle.getValueState("totals", "events bigint, total bigint")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            events, total = self._totals.get() if self._totals.exists() else (0, 0)
            for frame in rows:
                events, total = events + len(frame), total + int(frame["value"].sum())
            self._totals.update((events, total))
            yield pd.DataFrame({"key": [key[0]], "events": [events], "total": [total]})

        def close(self) -> None:
            pass

    grouped = _read(spark, root, "events", EVENTS).groupBy("key")
    rows = grouped.transformWithStateInPandas(
        statefulProcessor=Totals(), outputStructType=OUTPUT, outputMode="append", timeMode="none"
    )
    return _appended(rows, root)


def join(spark: Any, root: Path) -> Any:
    """Join two streams. The rows of both are kept for ever."""
    events, names = _read(spark, root, "events", EVENTS), _read(spark, root, "names", "key bigint, name string")
    return _appended(events.join(names, "key"), root)


def _windowed(spark: Any, root: Path, windows: Any) -> Any:
    from pyspark.sql import functions as F

    events = _read(spark, root, "events", EVENTS).withWatermark("at", _DELAY)
    summed = events.groupBy("key", windows.alias("window")).agg(F.sum("value").alias("value"))
    shown = summed.selectExpr("key", "window.start as window_start", "window.end as window_end", "value")
    return _appended(shown, root)


def sliding(spark: Any, root: Path) -> Any:
    from pyspark.sql import functions as F

    return _windowed(spark, root, F.window("at", "1 hour", "15 minutes"))


def sessions(spark: Any, root: Path) -> Any:
    from pyspark.sql import functions as F

    return _windowed(spark, root, F.session_window("at", "30 minutes"))


def readme(spark: Any, root: Path) -> Any:
    """A table of current rows that is rewritten as a whole and judged before it is shown."""
    from pyspark.sql import functions as F

    current = root / "out" / "current"
    current.parent.mkdir()

    def write(batch: Any, number: int) -> None:
        version = root / "versions" / str(number)
        before = current.resolve() if current.is_symlink() else None
        whole = batch.persist()
        if before is not None:
            others = spark.read.parquet(str(before)).join(batch, "customer", "left_anti")
            whole = others.unionByName(batch)
        whole.write.parquet(str(version))
        _judge(spark.read.parquet(str(version)))
        link = root / "link"
        os.symlink(version, link)
        os.replace(link, current)
        if before is not None:
            shutil.rmtree(before)
        batch.unpersist()

    orders = _read(spark, root, "orders", "customer string, amount double", "csv")
    totals = orders.groupBy("customer").agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
    writer = totals.writeStream.outputMode("update").foreachBatch(write)
    return writer.option("checkpointLocation", str(root / "checkpoints")).start()


def _judge(rows: Any) -> None:
    import great_expectations as gx
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("batch").get_batch({"dataframe": rows})
    asked = ExpectationConfiguration("expect_column_values_to_be_between", {"column": "amount", "min_value": 0})
    if not batch.validate(asked.to_domain_obj()).success:
        raise RuntimeError("A batch does not meet its expectations.")
