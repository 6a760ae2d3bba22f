"""Tables of current rows with derived columns, some of whose rows are left out, and the events of a test."""

from pathlib import Path
from random import Random
from typing import Any

from listed import Listed
from mirrors import Mirror
from pyspark.sql import functions as F
from worlds import ManualClock

from tidegate import ParquetSink, Pipeline, count, expect, suite

DAY = 86_400
EVENTS = "k string, v bigint"
NAMED = suite("named", expect("column_values_to_not_be_null", column="tenfold"))


class Loose(Mirror):
    """Is told to remove keys that it does not have, and given rows that are as they were: behind a transform nobody
    knows which rows were left out before."""

    def _apply(self, table: Any, handle: Any) -> None:
        strict: Any = {}
        for batch in self.batches([handle]):
            for row in batch.to_pylist():
                strict[next(iter(row.values())),] = None
        before = {key: table.pop(key, None) for key in strict}
        if all("_delete" in batch.schema.names for batch in self.batches([handle])):
            table.update(dict.fromkeys(before))
        super()._apply(table, handle)


class Script:
    """Events of a few keys; one with a negative value deletes its key. `factor` is what the code of the day says."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.random, self.clock, self.root, self.factor = Random(seed), ManualClock(), root, 10
        self.source = Listed(EVENTS, step=100)
        self.mirrors = {name: Loose(str(root / name)) for name in ("even", "lively")}

    def pipeline(self, parallelism: int = 2) -> Pipeline:
        pipeline, factor = Pipeline("derived", parallelism=parallelism, max_parallelism=16), self.factor
        events = pipeline.source("events", self.source)

        @pipeline.keyed("kept", inputs=[events], key=["k"], state="k string, v bigint")
        def keep(events: Any, state: Any) -> Any:
            return events.groupBy("k").agg(F.min("v").alias("v")).withColumn("_delete", F.col("v") < 0)

        def even(rows: Any) -> Any:
            return rows.where("v % 2 = 0").selectExpr("k as key", f"v * {factor} as tenfold", "upper(k) as big")

        lively = events.key_by("k").aggregate("lively", n=count(), ttl="10 d")
        many = lively.transform(lambda rows: rows.withColumn("many", F.col("n") > 1)).transform(without_b)
        for name, stream in {"even": keep.transform(even), "lively": many}.items():
            stream.sink(name, self.mirrors[name])
            expected = NAMED if name == "even" else None
            stream.sink(f"{name}_now", ParquetSink(str(self.root / f"{name}_now"), mode="latest"), expect=expected)
        return pipeline

    def deliver(self, events: int = 4) -> None:
        for _ in range(events):
            key = self.random.choice([None, *"abcdefghij"])
            self.source.put(0, (key, self.random.randint(-1, 6)))

    def check(self, checkpoints: Any) -> None:
        """Every table against what plain Python makes of the state."""
        kept = [(k, v * self.factor, k and k.upper()) for k, v in checkpoints.rows("state:kept") if v % 2 == 0]
        lively = [(k, n, n > 1) for k, n in checkpoints.rows("state:lively") if k != "b"]
        for name, expected in {"even": kept, "lively": lively}.items():
            assert self.mirrors[name].rows() == sorted(expected, key=repr), name
            assert checkpoints.rows(f"sink:{name}_now") == sorted(expected, key=repr), f"{name}_now"


def without_b(rows: Any) -> Any:
    return rows.where("k is null or k != 'b'")
