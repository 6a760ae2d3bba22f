"""What a second attempt does, and what becomes of Spark tasks that fail, repeat, or come too late."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from dying_checkpoints import DiedError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sizes import later
from spark_checkpoints import Checkpoints, Landing

from tidegate import FileSource, ParquetSink, Pipeline, count, sum_
from tidegate.ports import SinkCommit, SinkInput, StageContext
from tidegate.protocol.facts.errors import (
    PipelineDefinitionError,
    SparkUnavailableError,
    StateIntegrityError,
    StateSchemaError,
    StorageError,
    SupersededAttemptError,
)
from tidegate.protocol.facts.records import AcknowledgeResult, StateHandle, SubtaskId

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]


def two_operators(rows: Landing, tables: Path) -> Pipeline:
    pipeline = Pipeline("twice", parallelism=4)
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint, v bigint"))
    source.key_by("k").aggregate("sums", total=sum_("v")).sink("sums", ParquetSink(str(tables / "sums")))
    source.key_by("v").aggregate("counts", seen=count()).key_by("seen").aggregate("groups", keys=count())
    return pipeline


def dies_at(fatal: SubtaskId) -> Callable[[SubtaskId], AcknowledgeResult | None]:
    def refuse(subtask: SubtaskId) -> AcknowledgeResult | None:
        if subtask == fatal:
            raise DiedError(str(subtask))
        return None

    return refuse


@pytest.mark.parametrize("fatal", [later(SubtaskId("sums", 2)), SubtaskId("counts", 1), later(SubtaskId("groups", 0))])
def test_a_second_attempt_sees_the_same_cut_and_leaves_alone_what_is_acknowledged(
    fatal: SubtaskId, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(two_operators(rows, tmp_path))
    rows.put(k=list(range(40)), v=[k % 5 for k in range(40)])
    checkpoints.trigger()
    with pytest.raises(DiedError):
        checkpoints.attempt_once(dies_at(fatal))
    first = dict(checkpoints.acknowledged)
    assert SubtaskId("rows", 0) in first
    rows.put(k=[1, 2, 3], v=[100, 100, 100])  # belongs to the next checkpoint
    checkpoints.attempt_once()
    checkpoints.complete()
    assert {id_: checkpoints.acknowledged[id_] for id_ in first} == first
    assert checkpoints.rows("state:sums") == sorted(((k, k % 5) for k in range(40)), key=repr)
    assert checkpoints.rows("sink:sums") == checkpoints.rows("state:sums")
    assert checkpoints.rows("state:counts") == [(v, 8) for v in range(5)]
    assert checkpoints.rows("state:groups") == [(8, 5)]
    checkpoints.take()
    assert (1, 101) in checkpoints.rows("state:sums")
    assert checkpoints.rows("state:groups") == [(3, 1), (8, 5)]


@pytest.mark.parametrize("answer", [AcknowledgeResult.UNKNOWN, AcknowledgeResult.DISCARDED])
@pytest.mark.parametrize("subtask", [SubtaskId("rows", 0), SubtaskId("sums", 1)])
def test_an_attempt_that_no_longer_counts_stops(
    answer: AcknowledgeResult, subtask: SubtaskId, landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(two_operators(rows, tmp_path))
    rows.put(k=[1], v=[1])
    checkpoints.trigger()
    with pytest.raises(SupersededAttemptError, match=f"{subtask} was answered {answer}"):
        checkpoints.attempt_once(lambda asked: answer if asked == subtask else None)


@dataclass(frozen=True)
class StumblingWriter:
    """Stages a file and then fails, the first time it is asked."""

    inner: Any
    marker: str

    def stage(self, rows: Any, context: StageContext) -> list[StateHandle]:
        handles: list[StateHandle] = self.inner.stage(rows, context)
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return handles
        raise StorageError("the network stumbled")


@dataclass(frozen=True)
class StumblingSink:
    inner: ParquetSink
    marker: str

    input = SinkInput.CHANGES
    commits = SinkCommit.AFTER_THE_COMMIT

    def writer(self) -> StumblingWriter:
        return StumblingWriter(self.inner.writer(), self.marker)

    def read_staged(self, spark: Any, staged: Sequence[StateHandle]) -> Any:
        return self.inner.read_staged(spark, staged)

    def staged_paths(self, checkpoint_id: int) -> list[str]:
        return self.inner.staged_paths(checkpoint_id)

    def describe(self) -> dict[str, Any]:
        return self.inner.describe()


def test_a_spark_task_that_fails_once_leaves_files_that_do_not_count(
    landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    rows = landing("rows")
    pipeline = Pipeline("stumbling", parallelism=1)
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint, v bigint"))
    sink = StumblingSink(ParquetSink(str(tmp_path / "sums")), str(tmp_path / "marker"))
    source.key_by("k").aggregate("sums", total=sum_("v")).sink("sums", sink)
    checkpoints = open_checkpoints(pipeline)
    rows.put(k=[1, 2], v=[10, 20])
    checkpoints.take()
    runs = [path for path in checkpoints.storage.list("stumbling/chk-1") if "/sums/" in path]
    assert len(runs) == 2
    assert len(sink.staged_paths(1)) == 2
    assert [handle.path in runs for handle in checkpoints.completed[SubtaskId("sums", 0)].handles] == [True]
    assert len(checkpoints.staged("sums")) == 1
    assert checkpoints.rows("sink:sums") == [(1, 10), (2, 20)]
    assert checkpoints.rows("state:sums") == [(1, 10), (2, 20)]


def test_when_one_operator_fails_the_jobs_of_the_others_are_stopped(landing: Land, open_checkpoints: Open) -> None:
    rows = landing("rows")
    pipeline = Pipeline("halting", parallelism=1)
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint, v bigint"))

    def idle(number):
        time.sleep(300)
        return number

    slow = source.transform(lambda df: df.withColumn("v", F.udf(idle, "bigint")("v")))
    slow.key_by("k").aggregate("slow", total=sum_("v"))
    # Behind a transform a column is found to be missing only when Spark looks.
    source.transform(lambda df: df).key_by("missing").aggregate("wrong", total=sum_("v"))
    checkpoints = open_checkpoints(pipeline)
    rows.put(k=[1], v=[1])
    checkpoints.trigger()
    started = time.monotonic()
    with pytest.raises(PipelineDefinitionError, match="'missing'"):
        checkpoints.attempt_once()
    assert time.monotonic() - started < 200


def keyed_by(source: Path, key: str, schema: str = "k bigint, v bigint") -> Pipeline:
    pipeline = Pipeline("wrong")
    rows = pipeline.source("rows", FileSource(str(source), format="parquet", schema=schema))
    rows.transform(lambda df: df).key_by(key).aggregate("sums", total=sum_("v"))
    return pipeline


def test_an_unknown_key_column_is_named_with_those_there_are(landing: Land, open_checkpoints: Open) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(keyed_by(rows.path, "carrier"))
    rows.put(k=[1], v=[1])
    checkpoints.trigger()
    with pytest.raises(
        PipelineDefinitionError,
        match=r"operator 'sums' of pipeline 'wrong' needs column 'carrier', but its input has only k, v",
    ):
        checkpoints.attempt_once()


def test_state_of_another_schema_is_refused_with_the_difference(
    landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    rows = landing("rows")
    before = open_checkpoints(keyed_by(rows.path, "k"))
    rows.put(k=[1], v=[1])
    before.take()
    after = open_checkpoints(keyed_by(rows.path, "k", schema="k bigint, v double"))
    after.completed, after.checkpoint_id = before.completed, 1
    rows.put(k=[1], v=[1.5])
    after.trigger()
    with pytest.raises(StateSchemaError, match=r"'total'.* stored as bigint, now double"):
        after.attempt_once()


def test_a_truncated_run_is_named(landing: Land, open_checkpoints: Open, tmp_path: Path) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(keyed_by(rows.path, "k"))
    rows.put(k=[1], v=[1])
    checkpoints.take()
    subtasks = [SubtaskId("sums", index) for index in (0, 1)]
    (subtask,) = (each for each in subtasks if checkpoints.completed[each].handles)
    (run,) = checkpoints.completed[subtask].handles
    path = tmp_path / "checkpoints" / run.path
    truncated = path.with_name("truncated.parquet")  # under a name that no worker has in memory, as on another machine
    truncated.write_bytes(path.read_bytes()[:100])
    named = replace(run, path=f"{Path(run.path).parent}/{truncated.name}")
    checkpoints.completed[subtask] = replace(checkpoints.completed[subtask], handles=(named,))
    rows.put(k=[1], v=[1])
    checkpoints.trigger()
    with pytest.raises(StateIntegrityError, match=named.path):
        checkpoints.attempt_once()


def test_spark_that_was_lost_says_that_repeating_is_safe() -> None:
    from py4j.protocol import Py4JNetworkError

    from tidegate.spark.driver.spark_errors import as_checkpoint_error

    error = as_checkpoint_error(Py4JNetworkError("Answer from Java side is empty"), "operator 'sums' of pipeline 'p'")
    assert type(error) is SparkUnavailableError
    assert "repeating the snapshot step resumes this checkpoint on the same input" in str(error)


def test_a_checkpoint_error_in_a_spark_task_keeps_its_class_and_words(spark: SparkSession) -> None:
    from tidegate.spark.driver.spark_errors import as_checkpoint_error
    from tidegate.spark.executor.carried_errors import carried_to_driver

    words = "Line one.\nSecond “line” with 'quotes' and <marks>."

    def partition(batches: Any) -> Any:
        with carried_to_driver():
            raise StateSchemaError(words)
        yield from batches

    with pytest.raises(Exception, match="tidegate-error") as caught:
        spark.range(1).mapInArrow(partition, "id bigint").collect()
    error = as_checkpoint_error(caught.value, "a test")
    assert type(error) is StateSchemaError
    assert str(error) == words
