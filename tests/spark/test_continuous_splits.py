"""A continuous run whose source has another number of splits than the checkpoint that it goes on from."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from continuous_checkpoints import Running
from orders import rows_of
from pyspark.sql import SparkSession

from tidegate import ParquetSink, Pipeline, RangeSource
from tidegate.protocol.barriers.messages import StopMode

pytestmark = pytest.mark.spark


class Lanes(RangeSource):
    """Six lanes with as many rows each as `ends` says. Lane l belongs to split l mod `splits`."""

    schema = "lane BIGINT, at BIGINT"

    def __init__(self, splits: int, ends: int) -> None:
        self.splits, self.ends = splits, ends

    def latest(self, split: int, position: Any) -> Any:
        return {str(lane): self.ends for lane in range(split, 6, self.splits)}

    def divide(self, split: int, positions: Mapping[int, Any]) -> Any:
        known = {lane: end for position in positions.values() for lane, end in position.items()}
        return {str(lane): known[str(lane)] for lane in range(split, 6, self.splits) if str(lane) in known}

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        rows = [(int(lane), at) for lane, upto in end.items() for at in range((start or {}).get(lane, 0), upto)]
        yield pa.RecordBatch.from_pydict({"lane": [lane for lane, _ in rows], "at": [at for _, at in rows]})

    def describe(self) -> dict[str, Any]:
        return {"type": "Lanes"}


def lanes(root: Path, splits: int, ends: int) -> Pipeline:
    pipeline = Pipeline("lanes", parallelism=2)
    pipeline.source("rows", Lanes(splits, ends)).sink("log", ParquetSink(str(root / "log")))
    return pipeline


@pytest.mark.parametrize("splits", [1, 2, 5])
@pytest.mark.parametrize("first", ["poll", "checkpoint", "stop"])
def test_each_row_is_read_once(splits: int, first: str, spark: SparkSession, tmp_path: Path) -> None:
    """Also if a checkpoint, or the end of the run, is asked before anything was polled: what the splits that are gone
    had read is in no snapshot after it."""
    running = Running(lanes(tmp_path, 3, 2), spark, tmp_path)
    running.until_idle()
    running.take()
    running.change(lanes(tmp_path, splits, 3))
    if first == "poll":
        running.until_idle()
    running.take(stop=StopMode.SUSPEND if first == "stop" else None)
    running.change(lanes(tmp_path, splits, 4))
    running.until_idle()
    running.take()
    assert sorted((row["lane"], row["at"]) for row in rows_of(tmp_path / "log")) == [
        (lane, at) for lane in range(6) for at in range(4)
    ]
