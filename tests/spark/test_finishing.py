"""Bounded sources, stopping and draining, through the coordinator and Spark to what readers see
(sections 13 and 18)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from dying_checkpoints import DiedError
from memory_store import MemoryCheckpointStore
from pyspark.sql import SparkSession
from spark_checkpoints import Landing
from user_actions import resume
from worlds import Judge

from tidegate import FileSource, ParquetSink, Pipeline, count, sum_
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import CheckpointDeclinedError, PipelineStatusError, StateSchemaError
from tidegate.protocol.facts.lifecycle import Status
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.pipelines import PipelineStatus
from tidegate.protocol.facts.records import Acknowledgement, CheckpointKind, SubtaskId
from tidegate.protocol.steps.trigger import Dropped
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark

Land = Callable[[str], Landing]


class Runs:
    """Takes whole checkpoints of a pipeline, whose definition may change between them."""

    def __init__(self, session: SparkSession, root: Path) -> None:
        self.session, self.root, self.store = session, root, MemoryCheckpointStore()
        self.storage = ArrowCheckpointStorage(str(root / "checkpoints"))
        self.number = 0

    def define(self, pipeline: Pipeline) -> None:
        settings = Settings(self.root, self.storage.url, str(self.root / "cache"), self.root / "docs")
        self.name = pipeline.name
        self.coordinator = CheckpointCoordinator(pipeline, self.store, self.storage, SystemClock())
        self.region: Any = SparkRegion(compile_graph(pipeline), self.session, self.storage, SystemClock(), settings)

    def take(self, kind: CheckpointKind = CheckpointKind.CHECKPOINT, drain: bool = False) -> int | Dropped:
        self.number += 1
        outcome = self.coordinator.trigger(f"r{self.number}", kind=kind, drain=drain)
        if isinstance(outcome, Dropped):
            return outcome
        id_: int = outcome.checkpoint_id
        self.complete(id_)
        return id_

    def complete(self, id_: int) -> None:
        self.coordinator.snapshot(id_, self.region)
        self.coordinator.validate(id_, Judge(True))
        self.coordinator.finalize(id_)
        self.coordinator.notify(id_)

    def stop(self, drain: bool = False) -> int | Dropped:
        return self.take(CheckpointKind.SYNC_SAVEPOINT, drain)

    @property
    def status(self) -> PipelineStatus:
        known = self.store.pipeline(self.name)
        assert known is not None
        return known.status

    def finished(self, id_: int) -> set[str]:
        known = self.store.subtasks(self.name, id_)
        return {id_.operator_id for id_, subtask in known.items() if subtask.snapshot.finished}

    def asked(self, id_: int) -> set[str]:
        return {id_.operator_id for id_, subtask in self.store.subtasks(self.name, id_).items() if subtask.attempt}


@pytest.fixture
def runs(spark: SparkSession, tmp_path: Path) -> Runs:
    return Runs(spark, tmp_path)


def shown(directory: Path) -> list[tuple[Any, ...]]:
    files = sorted(directory.glob("checkpoint=*/*.parquet")) or sorted((directory / "current").glob("*.parquet"))
    return sorted(tuple(row.values()) for file in files for row in pq.ParquetFile(file).read().to_pylist())


def end(landing: Landing) -> None:
    (landing.path / "_SUCCESS").touch()


def source(landing: Landing, **options: Any) -> FileSource:
    landing.path.mkdir(parents=True, exist_ok=True)
    return FileSource(str(landing.path), format="parquet", schema="k bigint, v bigint", **options)


def past_and_present(past: Landing, present: Landing, tables: Path, totals: str = "totals") -> Pipeline:
    """A bounded history and a live source: each with an operator of its own, and one that reads what both produce."""
    pipeline = Pipeline("both", parallelism=2)
    old = pipeline.source("past", source(past, end_marker="_SUCCESS", splits=2))
    new = pipeline.source("present", source(present))
    sums = old.key_by("k").aggregate("sums", total=sum_("v"))
    sums.sink("totals", ParquetSink(str(tables / totals), mode="latest"))
    sums.sink("changes", ParquetSink(str(tables / "changes")))

    @pipeline.keyed("seen", inputs=[sums, new], key=["k"], state="k bigint, n bigint")
    def seen(totals: Any, rows: Any, state: Any) -> Any:
        both = totals.select("k").unionAll(rows.select("k")).groupBy("k").count().withColumnRenamed("count", "m")
        joined = both.join(state, "k", "left")
        return joined.selectExpr("k", "m + coalesce(n, 0) as n")

    seen.sink("seen", ParquetSink(str(tables / "seen"), mode="latest"))
    return pipeline


def test_what_is_bounded_finishes_and_the_rest_goes_on_to_the_end(runs: Runs, landing: Land, tmp_path: Path) -> None:
    past, present = landing("past"), landing("present")
    runs.define(past_and_present(past, present, tmp_path))
    past.put(k=[1, 2], v=[10, 20])
    present.put(k=[3], v=[0])
    assert runs.take() == 1
    assert runs.finished(1) == set()
    past.put(k=[1], v=[5])
    end(past)
    assert runs.take() == 2
    assert runs.finished(2) == {"past", "sums", "totals-sink", "changes-sink"}
    assert runs.status is PipelineStatus.RUNNING
    before = shown(tmp_path / "totals"), shown(tmp_path / "changes")
    assert before[0] == [(1, 15), (2, 20)]
    for k in (3, 1):
        present.put(k=[k], v=[0])
        id_ = runs.take()
        assert isinstance(id_, int)
        assert runs.finished(id_) == runs.finished(2)
        assert runs.asked(id_) == {"present", "seen", "seen-sink", "totals-sink"}
        assert (shown(tmp_path / "totals"), shown(tmp_path / "changes")) == before
    assert shown(tmp_path / "seen") == [(1, 3), (2, 1), (3, 2)]
    record = runs.store.checkpoint("both", 4)
    assert record is not None
    assert (record.status, record.num_finished) == (Status.COMPLETED, 2 + 3 * 2)
    assert runs.stop(drain=True) == 5
    assert runs.status is PipelineStatus.FINISHED
    assert runs.finished(5) == runs.finished(2) | {"present", "seen", "seen-sink"}
    assert shown(tmp_path / "totals") == before[0]


def test_a_pipeline_that_has_read_everything_is_finished_and_its_state_stays(
    runs: Runs, landing: Land, tmp_path: Path
) -> None:
    rows = landing("rows")
    pipeline = Pipeline("bounded", parallelism=2)
    stream = pipeline.source("rows", source(rows, end_marker="_SUCCESS", splits=2, max_files_per_checkpoint=2))
    stream.key_by("k").aggregate("sums", total=sum_("v")).sink(
        "sums", ParquetSink(str(tmp_path / "sums"), mode="latest")
    )
    stream.sink("copy", ParquetSink(str(tmp_path / "copy")))
    runs.define(pipeline)
    for number in range(6):
        rows.put(k=[number % 2], v=[number])
    end(rows)
    while runs.number < 10 and not isinstance(runs.take(), Dropped):
        pass
    assert runs.status is PipelineStatus.FINISHED
    assert 3 < runs.number < 10
    assert shown(tmp_path / "sums") == [(0, 6), (1, 9)]
    assert shown(tmp_path / "copy") == sorted((number % 2, number) for number in range(6))
    last = runs.store.history("bounded", 1)[0]
    assert runs.finished(last.checkpoint_id) == {"rows", "sums", "sums-sink", "copy-sink"}
    subtasks = runs.store.subtasks("bounded", last.checkpoint_id)
    frame = runs.region.frame(Target.parse("state:sums"), subtasks, last)
    assert sorted(tuple(row) for row in frame.collect()) == [(0, 6), (1, 9)]
    rows.put(k=[7], v=[7])  # too late: nobody looks any more
    dropped = runs.take()
    assert isinstance(dropped, Dropped)
    assert f"Checkpoint {last.checkpoint_id} has read every source to its end." in dropped.message


def counting(rows: Landing, tables: Path) -> Pipeline:
    pipeline = Pipeline("counting", parallelism=2)
    counts = pipeline.source("rows", source(rows)).key_by("k").aggregate("counts", n=count(), total=sum_("v"))
    counts.sink("counts", ParquetSink(str(tables / "counts"), mode="latest"))
    counts.sink("log", ParquetSink(str(tables / "log")))
    return pipeline


def test_a_stopped_pipeline_goes_on_from_its_savepoint(runs: Runs, landing: Land, tmp_path: Path) -> None:
    rows = landing("rows")
    runs.define(counting(rows, tmp_path))
    rows.put(k=[1], v=[10])
    assert runs.take() == 1
    rows.put(k=[1, 2], v=[1, 2])
    assert runs.stop() == 2
    assert runs.status is PipelineStatus.FINISHED
    assert runs.finished(2) == set()
    assert shown(tmp_path / "counts") == [(1, 2, 11), (2, 1, 2)]
    rows.put(k=[2], v=[5])
    assert isinstance(runs.take(), Dropped)
    resume(runs.coordinator)
    assert runs.take() == 3
    assert shown(tmp_path / "counts") == [(1, 2, 11), (2, 2, 7)]
    assert shown(tmp_path / "log") == [(1, 1, 10), (1, 2, 11), (2, 1, 2), (2, 2, 7)]
    savepoint = runs.store.checkpoint("counting", 2)
    assert savepoint is not None
    assert savepoint.status is Status.COMPLETED


def test_a_drained_pipeline_is_at_its_end_whatever_lies_behind(runs: Runs, landing: Land, tmp_path: Path) -> None:
    rows = landing("rows")
    runs.define(counting(rows, tmp_path))
    rows.put(k=[1], v=[10])
    assert runs.stop(drain=True) == 1
    assert runs.finished(1) == {"rows", "counts", "counts-sink", "log-sink"}
    assert shown(tmp_path / "counts") == [(1, 1, 10)]
    rows.put(k=[1], v=[10])
    with pytest.raises(PipelineStatusError, match="It was drained by savepoint 1"):
        resume(runs.coordinator)
    assert isinstance(runs.take(), Dropped)
    assert shown(tmp_path / "counts") == [(1, 1, 10)]


def test_what_is_added_behind_a_finished_source_is_asked_directly_also_by_a_second_attempt(
    runs: Runs, landing: Land, tmp_path: Path
) -> None:
    past, present = landing("past"), landing("present")
    runs.define(past_and_present(past, present, tmp_path))
    past.put(k=[1], v=[1])
    end(past)
    present.put(k=[3], v=[0])
    assert runs.take() == 1
    wider = past_and_present(past, present, tmp_path, totals="moved")
    stream = next(vertex for vertex in wider.vertices if vertex.name == "sums").inputs[0]
    late = stream.key_by("k").aggregate("late", n=count())
    late.key_by("n").aggregate("later", keys=count()).sink("later", ParquetSink(str(tmp_path / "later")))
    runs.define(wider)
    runs.coordinator.relocate()
    present.put(k=[3], v=[0])

    take = runs.region.snapshot

    def dies(task: Any, acknowledge: Any) -> None:
        def report(acks: list[Acknowledgement]) -> Any:
            first = [ack for ack in acks if not ack.subtask.operator_id.startswith("later")]
            answers = acknowledge(first)
            if len(first) < len(acks):
                raise DiedError
            return answers

        take(task, report)

    outcome: Any = runs.coordinator.trigger("r2")
    runs.region.snapshot = dies
    with pytest.raises(DiedError):
        runs.coordinator.snapshot(outcome.checkpoint_id, runs.region)
    runs.region.snapshot = take
    assert runs.store.subtasks("both", 2)[SubtaskId("late", 0)].acknowledged_at is not None
    runs.complete(2)
    assert runs.finished(2) == runs.finished(1) | {"late", "later", "later-sink"}
    assert shown(tmp_path / "moved") == [(1, 1)], "a sink that writes elsewhere now gets all current rows"
    assert shown(tmp_path / "seen") == [(1, 1), (3, 2)]


def test_what_had_finished_may_not_be_given_an_input_that_has_not(runs: Runs, landing: Land, tmp_path: Path) -> None:
    past, present = landing("past"), landing("present")
    runs.define(past_and_present(past, present, tmp_path))
    past.put(k=[1], v=[1])
    end(past)
    assert runs.take() == 1
    changed = Pipeline("both", parallelism=2)
    changed.source("past", source(past, end_marker="_SUCCESS", splits=2))
    rows = changed.source("present", source(present))
    rows.key_by("k").aggregate("sums", total=sum_("v"))
    rows.key_by("k").aggregate("seen", n=count())
    runs.define(changed)
    with pytest.raises(
        StateSchemaError, match="sums of pipeline both had finished with checkpoint 1, but now reads present"
    ):
        runs.take()


def test_a_region_that_leaves_somebody_out_is_found_out(runs: Runs, landing: Land, tmp_path: Path) -> None:
    rows = landing("rows")
    runs.define(counting(rows, tmp_path))
    outcome: Any = runs.coordinator.trigger("r1", kind=CheckpointKind.SYNC_SAVEPOINT)
    runs.region.snapshot = lambda task, acknowledge: None
    with pytest.raises(CheckpointDeclinedError, match="0 of 7 subtasks"):
        runs.coordinator.snapshot(outcome.checkpoint_id, runs.region)
    assert runs.status is PipelineStatus.STOPPING
