"""Verdicts of tables to which nothing came, on real Spark, by Great Expectations: not given anew, and no job run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate import FileSource, ParquetSink, Pipeline, assembly, count, expect, suite
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.expectations import Expectation
from tidegate.protocol.facts.errors import ValidationFailedError
from tidegate.protocol.facts.reasons import FailureReason
from tidegate.protocol.facts.records import Verdict
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark

NOT_NULL = expect("column_values_to_not_be_null", column="k")
FEW = expect("table_row_count_to_be_between", max_value=3)

Take = Callable[[Pipeline], dict[str, Verdict]]


def tables(root: Path, *rules: Expectation) -> Pipeline:
    pipeline = Pipeline("tables", parallelism=2)
    rows = pipeline.source("rows", FileSource(str(root / "landing"), format="parquet", schema="k bigint"))
    counts = rows.key_by("k").aggregate("counts", n=count(), expect=suite("state", NOT_NULL))
    counts.sink("current", ParquetSink(str(root / "current"), mode="latest"), expect=suite("current", *rules))
    counts.sink("changes", ParquetSink(str(root / "changes")), expect=suite("changes", NOT_NULL))
    return pipeline


def deliver(root: Path, name: str, *keys: int) -> None:
    (root / "landing").mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": keys}), root / "landing" / name)


@pytest.fixture
def jobs(spark: Any) -> Callable[[], int]:
    return lambda: int(spark.sparkContext._jsc.sc().statusStore().jobsList(None).size())


@pytest.fixture
def take(tmp_path: Path, store: Any, spark: Any) -> Take:
    settings = Settings(tmp_path, str(tmp_path / "checkpoints"), str(tmp_path / "cache"), tmp_path / "docs")
    storage, requests = ArrowCheckpointStorage(settings.storage), iter(range(100))

    def take_one(pipeline: Pipeline) -> dict[str, Verdict]:
        coordinator = CheckpointCoordinator(pipeline, store, storage, SystemClock())
        region = SparkRegion(coordinator.graph, spark, storage, SystemClock(), settings)
        decision: Any = coordinator.trigger(f"r{next(requests)}")
        id_ = decision.checkpoint_id
        coordinator.snapshot(id_, region)
        try:
            coordinator.validate(id_, assembly.open_validator(coordinator.graph, lambda: region, settings))
        except ValidationFailedError as error:
            coordinator.abort(id_, FailureReason.VALIDATION_FAILED, str(error))
            raise
        coordinator.finalize(id_)
        coordinator.notify(id_)
        return {str(verdict.target): verdict for verdict in store.verdicts(pipeline.name, id_)}

    return take_one


def test_what_did_not_change_is_not_judged_again_and_what_did_is(
    tmp_path: Path, take: Take, jobs: Callable[[], int]
) -> None:
    deliver(tmp_path, "a.parquet", 1, 2)
    first = take(tables(tmp_path, NOT_NULL, FEW))
    assert [(each.success, each.carried_from) for each in first.values()] == [(True, None)] * 3

    before = jobs()
    second = take(tables(tmp_path, NOT_NULL, FEW))
    assert jobs() == before
    third = take(tables(tmp_path, NOT_NULL, FEW))
    assert jobs() == before
    for empty in (second, third):
        assert {target: each.carried_from for target, each in empty.items()} == {
            "state:counts": 1, "sink:current": 1, "sink:changes": None,
        }  # fmt: skip
        assert empty["sink:current"].results == first["sink:current"].results
        assert empty["sink:current"].docs_path == first["sink:current"].docs_path
        assert (empty["sink:changes"].success, empty["sink:changes"].evaluated) == (True, 0)

    deliver(tmp_path, "b.parquet", 2)  # of one subtask alone
    fourth = take(tables(tmp_path, NOT_NULL, FEW))
    assert [(each.success, each.evaluated, each.carried_from) for each in fourth.values()] == [
        (True, 1, None), (True, 2, None), (True, 1, None),
    ]  # fmt: skip
    assert fourth["sink:current"].results[1]["observed"] == 2


def test_the_same_rows_are_judged_again_by_another_rule_and_what_failed_is_never_carried_over(
    tmp_path: Path, take: Take
) -> None:
    strict = expect("table_row_count_to_be_between", max_value=1)
    deliver(tmp_path, "a.parquet", 1, 2)
    take(tables(tmp_path, FEW))
    for _ in range(2):
        with pytest.raises(ValidationFailedError, match="observed 2"):
            take(tables(tmp_path, strict))
    verdicts = take(tables(tmp_path, FEW))  # those of the latest completed checkpoint, on the same files
    assert verdicts["sink:current"].carried_from == 1


def test_files_that_fail_once_more_rows_come_are_not_taken_for_those_that_passed(tmp_path: Path, take: Take) -> None:
    deliver(tmp_path, "a.parquet", 1, 2, 3)
    take(tables(tmp_path, FEW))
    deliver(tmp_path, "b.parquet", 4)
    with pytest.raises(ValidationFailedError, match="observed 4"):
        take(tables(tmp_path, FEW))
