"""A sink and a source of a user's own, which inherit from nothing. Checked, and never run."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidegate import CheckpointError, Pipeline
from tidegate.ports import (
    CheckpointStorage,
    CommitAttempt,
    HandleKind,
    Segment,
    SinkCommit,
    SinkInput,
    Snapshot,
    SourceContext,
    StageContext,
    StateHandle,
)


@dataclass(frozen=True)
class RowsWriter:
    url: str

    def stage(self, rows: pa.Table, context: StageContext) -> list[StateHandle]:
        path = f"chk-{context.checkpoint_id}/{context.subtask_index}-{context.attempt}-{context.unique}"
        return [StateHandle(path, HandleKind.STAGED, rows.num_rows, rows.nbytes, "", context.checkpoint_id)]


@dataclass(frozen=True)
class DatabaseSink:
    url: str
    commits = SinkCommit.AT_LEAST_ONCE

    @property
    def input(self) -> SinkInput:
        return SinkInput.CHANGES

    def writer(self) -> RowsWriter:
        return RowsWriter(self.url)

    def read_staged(self, spark: SparkSession, staged: Sequence[StateHandle]) -> DataFrame | None:
        return spark.read.parquet(*(handle.path for handle in staged)) if staged else None

    def commit(self, checkpoint_id: int, staged: Sequence[StateHandle], attempt: CommitAttempt) -> None:
        attempt.confirm()

    def verify(self, staged: Sequence[StateHandle], in_full: Collection[str]) -> None:
        print(staged, in_full)

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        return [f"chk-{checkpoint_id}"]

    def discard(self, paths: Sequence[str]) -> None:
        print(paths)

    def describe(self) -> dict[str, Any]:
        return {"type": "DatabaseSink"}


class NumbersSource:
    schema = "n BIGINT"

    def num_splits(self) -> int:
        return 1

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        return Segment(split, {"from": 0, "to": 10}, bytes=80), Snapshot((), {"next": 10})

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        return None

    def read(self, spark: SparkSession, segments: Sequence[Segment], output: str = "rows") -> DataFrame:
        return spark.range(0, 10).toDF("n")

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"type": "NumbersSource"}


numbers = Pipeline("numbers").source("numbers", NumbersSource())
numbers.sink("database", DatabaseSink("postgresql://database"), guarantee="AT_LEAST_ONCE")
