"""Savepoints that are edited, made from nothing, or written in other key groups, on real Spark: the pipeline goes on
from them, and its tables and state are what a computation without it says."""

import csv
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from orders import Shop, check_tables, orders_pipeline, rows_of
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import tidegate
from tidegate import (
    CheckpointConfig,
    FileSource,
    ParquetSink,
    Pipeline,
    approx_count_distinct,
    approx_percentile,
    assembly,
    collect_list,
    count,
    count_distinct,
    expect,
    savepoint,
    suite,
    sum_,
)
from tidegate.clock import SystemClock
from tidegate.coordination.recovery import editing
from tidegate.coordination.recovery.savepoint_directory import write_documents
from tidegate.pipeline.graph import Graph, compile_graph
from tidegate.ports import CheckpointStorage
from tidegate.protocol.facts.errors import (
    PipelineDefinitionError,
    SavepointEditError,
    StateSchemaError,
    ValidationFailedError,
)
from tidegate.protocol.facts.records import Verdict
from tidegate.protocol.observing.actions import ActionKind, AnswerStatus
from tidegate.protocol.recovery.canonical import Complete
from tidegate.protocol.recovery.metadata import Metadata
from tidegate.protocol.steps.trigger import Triggered
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state.storage import ArrowCheckpointStorage

pytestmark = pytest.mark.spark

COLUMNS = "customer string, n bigint, total bigint"
Rows = Sequence[tuple[str | None, int]]


class Project:
    """A home with a database of its own, whose pipelines are run on the shared session."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home = home
        self.spark = spark

    def pipeline(
        self, name: str = "shop", landing: str = "landing", ttl: str | None = None, means: bool = False, **options: Any
    ) -> Pipeline:
        positive = suite("amounts", expect("column_values_to_be_between", column="total", min_value=0))
        pipeline = Pipeline(name, checkpoints=CheckpointConfig(retained=5), **options)
        rows = pipeline.source("rows", FileSource(str(self.home / landing), schema="customer string, amount int"))
        sums = {"n": count(), "total": sum_("amount")}
        totals = rows.key_by("customer").aggregate("totals", expect=positive, ttl=ttl, **sums)
        totals.sink("totals", ParquetSink(str(self.home / name / "totals"), mode="latest"), expect=positive)
        rows.sink("seen", ParquetSink(str(self.home / name / "seen")))
        if means:
            meant = suite("means", expect("column_values_to_be_between", column="mean", min_value=0))
            derived = totals.transform(lambda rows: rows.selectExpr("customer AS who", "total / n AS mean"))
            derived.sink("means", ParquetSink(str(self.home / name / "means"), mode="latest"), expect=meant)
        return pipeline

    def deliver(self, name: str, rows: Rows, landing: str = "landing") -> None:
        (self.home / landing).mkdir(exist_ok=True)
        with (self.home / landing / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("customer", "amount"), *(("" if c is None else c, a) for c, a in rows)])

    def take(self, pipeline: Pipeline) -> int:
        coordinator = assembly.open_coordinator(pipeline)
        settings = Settings.from_environment()
        graph, storage = compile_graph(pipeline), ArrowCheckpointStorage(settings.storage)
        triggered = coordinator.trigger(f"request {len(list((self.home).rglob('_metadata')))}")
        assert isinstance(triggered, Triggered)
        region = SparkRegion(graph, self.spark, storage, SystemClock(), settings)
        coordinator.snapshot(triggered.checkpoint_id, region)
        coordinator.validate(triggered.checkpoint_id, Approving(graph.targets))
        coordinator.finalize(triggered.checkpoint_id, notifies=True)
        coordinator.notify(triggered.checkpoint_id)
        return triggered.checkpoint_id

    def frame(self, rows: Sequence[tuple[Any, ...]], columns: str = COLUMNS) -> Any:
        return self.spark.createDataFrame(list(rows), columns)

    def table(self, name: str = "shop") -> dict[str | None, tuple[int, int]]:
        return {row["customer"]: (row["n"], row["total"]) for row in rows_of(self.home / name / "totals" / "current")}

    def means(self) -> dict[str | None, float]:
        return {row["who"]: row["mean"] for row in rows_of(self.home / "shop" / "means" / "current")}

    def state(self, name: str = "shop") -> dict[str | None, tuple[int, int]]:
        return {
            row["customer"]: (row["n"], row["total"])
            for row in tidegate.state.read(name, "totals").read_all().to_pylist()
        }


class Approving:
    """What Great Expectations says of rows that are as they should be, without the time that it takes."""

    def __init__(self, targets: Sequence[Any]) -> None:
        self._targets = targets

    def validate(self, checkpoint: Any, subtasks: Any, settled: Any = ()) -> list[Verdict]:
        return [Verdict(target, "amounts", True, 1, 0) for target in self._targets]


def added(state: dict[str | None, tuple[int, int]], rows: Rows) -> dict[str | None, tuple[int, int]]:
    result = dict(state)
    for customer, amount in rows:
        n, total = result.get(customer, (0, 0))
        result[customer] = (n + 1, total + amount)
    return result


@pytest.fixture
def project(spark: SparkSession, running_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name, value in (("HOME", str(tmp_path)), ("DATABASE_URL", running_url), ("CACHE", str(tmp_path / "cache"))):
        monkeypatch.setenv(f"TIDEGATE_{name}", value)
    return Project(tmp_path, spark)


FIRST: Rows = [("ann", 5), ("bob", 7), (None, 1), ("ann", 3), ("cyd", 2)]
SECOND: Rows = [("bob", 9), ("dee", 4)]
THIRD: Rows = [("ann", 1), ("bob", 1), (None, 6)]


def test_a_pipeline_goes_on_from_state_that_was_corrected(project: Project) -> None:
    pipeline = project.pipeline(means=True)
    project.deliver("1", FIRST)
    project.take(pipeline)
    project.deliver("2", SECOND)
    project.take(pipeline)
    edit = savepoint.edit(pipeline, checkpoint=1, spark=project.spark)
    edit.upsert("totals", project.frame([("ann", 100, 1000), ("eve", 1, 1)], "customer string, n int, total bigint"))
    edit.upsert("totals", project.frame([(None, 50, 500)]))
    edit.remove("totals", project.frame([("bob",), ("nobody",)], "customer string"))
    written = edit.write("saved/repaired", name="repaired")
    assert (written.url, written.checkpoint_id) == (str(project.home / "saved/repaired"), 1)
    assert project.table() == project.state() == added(added({}, FIRST), SECOND)

    assembly.open_coordinator(pipeline).restore_from(written.url)
    corrected: dict[str | None, tuple[int, int]] = {
        "ann": (100, 1000), "eve": (1, 1), None: (50, 500), "cyd": (1, 2)
    }  # fmt: skip
    assert project.table() == project.state() == corrected
    assert project.means() == {who: total / n for who, (n, total) in corrected.items()}
    project.deliver("3", THIRD)
    project.take(pipeline)
    assert project.table() == project.state() == added(added(corrected, SECOND), THIRD)
    replaced = savepoint.edit(pipeline, from_url="saved/repaired", spark=project.spark)
    replaced.replace("totals", project.frame([("zoe", 1, 2)])).write("saved/replaced")
    assembly.open_coordinator(pipeline).restore_from(str(project.home / "saved/replaced"))
    assert project.table() == project.state() == {"zoe": (1, 2)}
    assert project.means() == {"zoe": 2.0}


def test_rows_that_are_given_by_hand_are_changed_when_they_are_given(project: Project) -> None:
    """Also where the time to live is new in the definition that is edited with."""
    project.deliver("1", FIRST)
    project.take(project.pipeline())
    pipeline = project.pipeline(ttl="1 h")
    begun = datetime.now(UTC)
    edit = savepoint.edit(pipeline, spark=project.spark)
    edit.upsert("totals", project.frame([("ann", 100, 1000)]))
    edit.remove("totals", project.frame([("bob",)], "customer string"))
    written = edit.write("saved/living")
    files = [pq.read_table(path) for path in (project.home / "saved/living/state").rglob("*.parquet")]
    changed = [at for table in files for at in table.column("_updated").to_pylist()]
    assert len(changed) == 3
    assert all(begun <= at <= datetime.now(UTC) for at in changed)
    assembly.open_coordinator(pipeline).restore_from(written.url)
    project.deliver("2", THIRD)
    project.take(pipeline)
    expected = added({"ann": (100, 1000), None: (1, 1), "cyd": (1, 2)}, THIRD)
    assert project.table() == project.state() == expected


def test_what_does_not_fit_is_refused_and_nothing_is_left(project: Project) -> None:
    pipeline = project.pipeline()
    project.deliver("1", FIRST)
    project.take(pipeline)

    def edit() -> Any:
        return savepoint.edit(pipeline, spark=project.spark)

    def refused(error: type[Exception], text: str, change: Callable[[], Any]) -> None:
        with pytest.raises(error, match=text):
            change()

    frame = project.frame
    refused(
        SavepointEditError,
        r"rows have the columns customer, n. The state of operator 'totals' of pipeline 'shop' has customer string, n "
        r"bigint, total bigint: missing total, not in the state none",
        lambda: edit().upsert("totals", frame([("ann", 1)], "customer string, n bigint")),
    )
    refused(
        SavepointEditError,
        "keys to remove have the columns customer, n.* not in the state n",
        lambda: edit().remove("totals", frame([("ann", 1)], "customer string, n bigint")),
    )
    refused(
        PipelineDefinitionError,
        "n is string, not bigint",
        lambda: edit().upsert("totals", frame([("ann", "1", 1)], "customer string, n string, total bigint")),
    )
    refused(SavepointEditError, "no operator 'sums'.* It has: totals", lambda: edit().upsert("sums", frame([])))
    whole = edit().replace("totals", frame([("ann", 1, 1)]))
    refused(SavepointEditError, "given its whole state, and other changes", lambda: whole.upsert("totals", frame([])))
    twice = edit().upsert("totals", frame([("ann", 1, 1)])).remove("totals", frame([("ann",)], "customer string"))
    refused(SavepointEditError, "name the key customer='ann' 2 times", lambda: twice.write("saved"))
    negative = edit().upsert("totals", frame([("ann", 1, -1)]))
    refused(ValidationFailedError, r"(?s)state:totals: 1 of 1 .*sink:totals: 1 of 1 ", lambda: negative.write("saved"))
    assert not list((project.home / "saved").rglob("*"))
    (report,) = (project.home / ".tidegate/docs/_edits").rglob("*.html")
    assert "_edits" not in str(report.relative_to(project.home / ".tidegate/docs/_edits"))
    assert [answer for *_, answer in rewrites("shop")] == [AnswerStatus.REFUSED] * 2
    assert project.table() == project.state() == added({}, FIRST)


def test_a_pipeline_begins_with_the_state_of_another_system(project: Project) -> None:
    begun, straight = project.pipeline(), project.pipeline("straight", "all", parallelism=3)
    created = savepoint.create(begun, spark=project.spark)
    old = added({}, FIRST)
    created.replace("totals", project.frame([(key, *values) for key, values in old.items()]))
    written = created.write("saved/begun")
    assert assembly.open_coordinator(begun).plan_restore_from(written.url).restore.edited is not None
    assembly.open_coordinator(begun).restore_from(written.url)
    assert project.table() == project.state() == old
    project.deliver("2", SECOND)
    project.take(begun)
    for name, rows in (("1", FIRST), ("2", SECOND)):
        project.deliver(name, rows, "all")
    project.take(straight)
    assert project.table() == project.state() == project.table("straight") == project.state("straight")
    with pytest.raises(SavepointEditError, match="Pipeline shop has run"):
        savepoint.create(begun, spark=project.spark)
    grown = project.pipeline(parallelism=100)
    assert grown.max_parallelism == 256
    assembly.open_coordinator(grown)
    assert grown.max_parallelism == 128  # as its state has it


def test_a_pipeline_begins_with_sketches_that_spark_has_made(project: Project) -> None:
    """And with arrays, of which one is to be counted and has a value twice."""

    def figures(name: str, landing: str) -> Pipeline:
        pipeline = Pipeline(name, parallelism=2)
        schema = "customer string, amount int"
        rows = pipeline.source("rows", FileSource(str(project.home / landing), schema=schema))
        rows.transform(lambda df: df.selectExpr("1 as one", "*")).key_by("one").aggregate(
            "all", different=count_distinct("amount"), least=collect_list("amount", limit=3),
            customers=approx_count_distinct("customer"), middle=approx_percentile("amount", 0.5),
        )  # fmt: skip
        return pipeline

    begun, straight = figures("begun", "landing"), figures("whole", "all")
    old = project.frame(FIRST, "customer string, amount int")
    sketched = (
        old.selectExpr("1 as one", "*")
        .groupBy("one")
        .agg(
            F.collect_list("amount").alias("_values_different"),
            F.slice(F.sort_array(F.collect_list("amount")), 1, 3).alias("least"),
            F.hll_sketch_agg("customer", 9).alias("_sketch_customers"),
            F.kll_sketch_agg_double(F.col("amount").cast("double")).alias("_sketch_middle"),
        )
    )
    doubled = sketched.withColumn("_values_different", F.expr("array_append(_values_different, 5)"))
    written = savepoint.create(begun, spark=project.spark).replace("all", doubled).write("saved/sketched")
    assembly.open_coordinator(begun).restore_from(written.url)
    project.deliver("2", SECOND)
    project.take(begun)
    for name, rows in (("1", FIRST), ("2", SECOND)):
        project.deliver(name, rows, "all")
    project.take(straight)
    (found,), (expected,) = (tidegate.state.read(name, "all").read_all().to_pylist() for name in ("begun", "whole"))
    assert found == expected == {"one": 1, "different": 7, "least": [1, 2, 3], "customers": 4, "middle": 4.0}


def rewrites(pipeline: str) -> list[tuple[Any, Any, AnswerStatus]]:
    """On record: from where to where, and the answer, newest first."""
    found = [each for each in assembly.open_store().audit(pipeline, 50) if each.action.kind is ActionKind.REWRITE]
    return [(each.action.details["origin"], each.action.details["to"], each.answer.status) for each in found]


def test_state_is_rewritten_for_another_max_parallelism(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(project.home)
    on_record: list[Any] = []

    def complete(graph: Graph, config: CheckpointConfig, target: CheckpointStorage, metadata: Metadata) -> Complete:
        on_record.extend(rewrites("orders"))
        return write_documents(graph, config, target, metadata)

    monkeypatch.setattr(editing, "write_documents", complete)

    def defined(parallelism: int, max_parallelism: int) -> Pipeline:
        pipeline = orders_pipeline(project.home, parallelism=parallelism, retained=5)
        pipeline.max_parallelism = max_parallelism
        return pipeline

    shop.deliver(files=3, rows=20)
    project.take(defined(3, 128))
    with pytest.raises(StateSchemaError, match=r"`tidegate rewrite orders --to URL`.*`tidegate restore orders --from"):
        project.take(defined(5, 256))
    written = savepoint.edit(defined(5, 256), spark=project.spark).write("saved/wider")
    # On record before its documents make a savepoint of it.
    assert on_record == rewrites("orders") == [("checkpoint 1", written.url, AnswerStatus.DONE)]
    assembly.open_coordinator(defined(5, 256)).restore_from(written.url)
    check_tables(shop)
    shop.deliver(files=2, rows=20)
    project.take(defined(7, 256))
    check_tables(shop)
