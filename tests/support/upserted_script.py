"""Operators whose rows are deleted and expire, with sinks of upserts behind them, and the events of a test."""

from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from listed import Listed
from mirrors import Mirror
from pyspark.sql import functions as F
from worlds import ManualClock

from tidegate import Pipeline, count, expect, max_, suite

DAY = 86_400
EVENTS = "k string, v bigint, at timestamp"
FILLED = suite("filled", expect("column_values_to_not_be_null", column="v"))


class Script:
    """Events of a few keys; one with a negative value deletes its key. The operators' tables are mirrored."""

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.random, self.clock, self.root = Random(seed), ManualClock(), root
        self.source, self.day = Listed(EVENTS, step=100), 0
        self.mirrors = {name: Mirror(str(root / name)) for name in ("kept", "lively", "recent", "late")}

    def pipeline(self, parallelism: int = 2, joined: bool = False, **options: Any) -> Pipeline:
        pipeline = Pipeline("upserts", parallelism=parallelism, max_parallelism=16)
        events = pipeline.source("events", self.source)

        @pipeline.keyed("kept", inputs=[events], key=["k"], state="k string, v bigint", **options)
        def keep(events: Any, state: Any) -> Any:
            return events.groupBy("k").agg(F.min("v").alias("v")).withColumn("_delete", F.col("v") < 0)

        lively = events.key_by("k").aggregate("lively", n=count(), ttl="10 d")
        recent = events.key_by("k").aggregate("recent", last=max_("at"), ttl="5 d", ttl_by="last")
        keep.sink("kept", self.mirrors["kept"], expect=FILLED)
        lively.sink("lively", self.mirrors["lively"])
        recent.sink("recent", self.mirrors["recent"])
        if joined:
            lively.sink("late", self.mirrors["late"])
        return pipeline

    def deliver(self, events: int = 4) -> None:
        random = self.random
        for _ in range(events):
            self.day += random.choice([0, 0, 1, 3])
            self.put(random.choice("abcdefghij"), random.randint(-3, 4), late=random.choice([0, 0, 9]))

    def put(self, key: str, value: int, late: int = 0) -> None:
        at = datetime(2026, 1, 1) + timedelta(days=self.day - late)
        self.source.put(0, (key, value, str(at)))

    def check(self, checkpoints: Any) -> None:
        for name in ("kept", "lively", "recent"):
            assert self.mirrors[name].rows() == checkpoints.rows(f"state:{name}"), name
