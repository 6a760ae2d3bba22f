"""Subtasks that read by themselves what arrived: when they do, and what happens when Spark must read it after all."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from continuous_checkpoints import Running
from listed import Listed
from orders import rows_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_checkpoints import Checkpoints, Landing, in_order

from tidegate import FileSource, ParquetSink, Pipeline, count, max_, sum_
from tidegate.protocol.facts.errors import MalformedRowsError
from tidegate.spark.driver import direct_input, operator_jobs
from tidegate.spark.driver.operator_jobs import OperatorJobs
from tidegate.spark.executor.direct_rows import DirectPlan
from tidegate.spark.executor.task import partition_id

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way each execution of a keyed operator went, in order."""
    ways: list[str] = []
    direct, keyed = operator_jobs.run_direct_job, OperatorJobs._keyed

    def note_direct(session: Any, plan: DirectPlan, emit: Any) -> bool:
        ways.append(f"direct {[list(share) for share in plan.shares]}")
        return direct(session, plan, emit)

    def note_keyed(self: OperatorJobs, *given: Any) -> DataFrame:
        ways.append("spark")
        return keyed(self, *given)

    monkeypatch.setattr(operator_jobs, "run_direct_job", note_direct)
    monkeypatch.setattr(OperatorJobs, "_keyed", note_keyed)
    return ways


def totals(
    source: Path, tables: Path, schema: str = "k bigint, v bigint", mode: Any = "append", **options: Any
) -> Pipeline:
    pipeline = Pipeline("totals", **options)
    rows = pipeline.source("rows", FileSource(str(source), format="parquet", schema=schema))
    rows.key_by("k").aggregate("totals", n=count(), v=sum_("v"), most=max_("v")).sink(
        "changes", ParquetSink(str(tables / "changes"), mode=mode)
    )
    return pipeline


def test_a_small_batch_is_read_in_one_task_and_a_larger_one_by_each_subtask(
    spark: SparkSession, landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str]
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(totals(rows.path, tmp_path, parallelism=3))
    rows.put(k=[1, 2, None], v=[1, 2, 3])
    checkpoints.take()
    rows.put(k=list(range(120_000)), v=list(range(120_000)))
    checkpoints.take()
    assert ran == ["direct [[0, 1, 2]]", "direct [[0, 2], [1]]"]
    grouped = rows.all(spark).groupBy("k").agg(F.count("*"), F.sum("v"), F.max("v"))
    assert checkpoints.rows("state:totals") == in_order(grouped.collect())
    staged = [handle.rows for handle in checkpoints.staged("changes")]
    assert sum(staged) == 120_000
    assert len(staged) == 3


@pytest.mark.parametrize(("mode", "tasks"), [("append", "[[0, 1, 2]]"), ("latest", "[[0], [1], [2]]")])
def test_a_table_that_is_written_from_much_state_is_written_by_more_tasks(
    mode: Any, tasks: str, landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str], monkeypatch: Any
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(totals(rows.path, tmp_path, mode=mode, parallelism=3))
    rows.put(k=list(range(1000)), v=list(range(1000)))
    checkpoints.take()
    monkeypatch.setattr(direct_input, "SMALL", 4000)
    rows.put(k=[1], v=[1000])
    checkpoints.take()
    assert ran == ["direct [[0, 1, 2]]", f"direct {tasks}"]
    assert checkpoints.rows("state:totals")[1] == (1, 2, 1001, 1000)


def test_too_much_to_be_read_several_times_is_exchanged(
    landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(totals(rows.path, tmp_path, parallelism=4))
    rows.put(k=[1], v=[1])
    [file] = rows.path.iterdir()
    monkeypatch.setattr(direct_input, "_READ_AGAIN", 4 * file.stat().st_size - 1)
    checkpoints.take()
    assert ran == ["spark"]
    assert checkpoints.rows("state:totals") == [(1, 1, 1, 1)]


def test_spark_reads_what_only_it_understands(landing: Land, open_checkpoints: Open, ran: list[str]) -> None:
    rows = landing("rows")
    pipeline = Pipeline("totals")
    read = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint, v bigint"))
    read.transform(lambda frame: frame.where("v > 0")).key_by("k").aggregate("totals", n=count())
    checkpoints = open_checkpoints(pipeline)
    rows.put(k=[1], v=[1])
    checkpoints.take()
    assert ran == ["spark"]


def test_what_must_be_left_to_spark_is_read_by_it_from_then_on(
    landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str]
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(totals(rows.path, tmp_path, parallelism=2))
    rows.put(k=[1], v=[1])
    checkpoints.take()
    rows.put(k=pa.array([1, 2], pa.int32()), v=[10, 20])  # Spark widens it
    checkpoints.take()
    rows.put(k=[2], v=[200])
    checkpoints.take()
    assert ran == ["direct [[0, 1]]", "direct [[0, 1]]", "spark", "spark"]
    assert checkpoints.rows("state:totals") == [(1, 2, 11, 10), (2, 2, 220, 200)]


def test_odd_files_add_up_alike_whoever_reads_them(
    landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str]
) -> None:
    rows, one = landing("rows"), pa.table({"k": [1], "v": [1]})
    rows.path.mkdir(parents=True)

    def put(name: str, table: pa.Table, **options: Any) -> None:
        pq.write_table(table, rows.path / f"{name}.parquet", **options)

    checkpoints = open_checkpoints(totals(rows.path, tmp_path))
    put("no rows", one.slice(0, 0))
    put("more columns", one.append_column("f", pa.array([1.5], pa.float16())))
    put("pages of version 2, in another order", one.select(["v", "k"]), data_page_version="2.0", compression="zstd")
    checkpoints.take()
    assert [way.split()[0] for way in ran] == ["direct"]
    assert checkpoints.rows("state:totals") == [(1, 2, 2, 1)]
    put("another case", one.rename_columns(["K", "v"]))
    put("unsigned", pa.table({"k": pa.array([1], pa.uint32()), "v": [1]}))
    put("lz4", one, compression="lz4")
    put("differences", one, use_dictionary=False, column_encoding=dict.fromkeys("kv", "DELTA_BINARY_PACKED"))
    checkpoints.take()
    assert ran[-1] == "spark"
    assert checkpoints.rows("state:totals") == [(1, 6, 6, 1)]


def test_what_subtasks_read_themselves_needs_no_spark_sql(
    landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str], spark: SparkSession
) -> None:
    def queries() -> int:
        """The number of the last one: Spark remembers a thousand of them."""
        context, session = cast(Any, spark.sparkContext), cast(Any, spark)
        context._jsc.sc().listenerBus().waitUntilEmpty()
        found = session._jsparkSession.sharedState().statusStore().executionsList()
        return int(found.last().executionId()) if found.size() else -1

    rows = landing("rows")
    checkpoints = open_checkpoints(totals(rows.path, tmp_path))
    rows.put(k=[1, 2], v=[1, 2])
    before = queries()
    checkpoints.take()
    assert queries() == before
    assert len(checkpoints.rows("state:totals")) == 2
    assert queries() > before  # they are counted
    assert [way.split()[0] for way in ran] == ["direct"]


@pytest.mark.parametrize(
    ("damage", "message", "ways"),
    [
        (lambda content: content[:-9], "cannot be read: .* its end is missing", []),
        (lambda content: content[:4] + bytes(196) + content[200:], "cannot be read: ", ["direct", "spark"]),
    ],
)
def test_a_damaged_file_is_the_error_it_always_was(
    damage: Any, message: str, ways: list[str], landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str]
) -> None:
    rows = landing("rows")
    checkpoints = open_checkpoints(totals(rows.path, tmp_path))
    rows.put(k=[1], v=[1])
    file, table = rows.path / "b.parquet", pa.table({key: list(range(10_000)) for key in "kv"})
    pq.write_table(table, file, compression="zstd", use_dictionary=False)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(MalformedRowsError, match=f"b.parquet {message}"):
        checkpoints.take()
    assert [way.split()[0] for way in ran] == ways


def test_a_part_of_the_reports_does_not_count(
    landing: Land, open_checkpoints: Open, tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One Spark task finds a file that is gone when the next one looks: nothing is acknowledged twice."""
    rows = landing("rows")
    checkpoints = open_checkpoints(totals(rows.path, tmp_path, parallelism=2))
    rows.put(k=list(range(200_000)), v=list(range(200_000)))
    run = operator_jobs.run_direct_job

    class Vanishing:
        def __init__(self, reader: Any) -> None:
            self.reader = reader

        def read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
            gone = partition_id() == 1
            yield from (replace(self.reader, paths=("gone",)) if gone else self.reader).read(schema)

    def half(session: Any, plan: DirectPlan, emit: Any) -> bool:
        return run(session, replace(plan, reader=Vanishing(plan.reader)), emit)

    monkeypatch.setattr(operator_jobs, "run_direct_job", half)
    checkpoints.take()  # which refuses what is acknowledged twice
    assert ran == ["direct [[0], [1]]", "spark"]
    assert len(checkpoints.rows("state:totals")) == 200_000


TYPES = {
    "boolean": lambda r: r.random() < 0.5,
    "tinyint": lambda r: r.randint(-128, 127),
    "smallint": lambda r: r.randint(-(2**15), 2**15 - 1),
    "int": lambda r: r.randint(-(2**31), 2**31 - 1),
    "bigint": lambda r: r.randint(-(2**63), 2**63 - 1),
    "float": lambda r: r.choice([float("nan"), 0.0, -0.0, r.randint(-9, 9) / 4]),
    "double": lambda r: r.choice([float("nan"), 0.0, -0.0, r.random()]),
    "string": lambda r: "é" * r.randint(0, 40),
    "date": lambda r: date(1600, 1, 1) + timedelta(r.randint(0, 200_000)),
    "timestamp_ntz": lambda r: datetime(1950, 1, 1) + timedelta(microseconds=r.randint(0, 2**50)),
    "decimal(9,2)": lambda r: Decimal(r.randint(-(10**8), 10**8)) / 100,
    "decimal(38,4)": lambda r: Decimal(r.randint(-(10**20), 10**20)) / 10_000,
}


@pytest.mark.parametrize("kind", TYPES)
def test_a_key_is_the_same_one_however_its_rows_were_read(
    kind: str,
    spark: SparkSession,
    landing: Land,
    open_checkpoints: Open,
    tmp_path: Path,
    ran: list[str],
    monkeypatch: Any,
) -> None:
    """A first checkpoint reads directly, the next by Spark, of keys that they share."""
    rows, chosen = landing("rows"), random.Random(7)
    checkpoints = open_checkpoints(totals(rows.path, tmp_path, f"k {kind}, v bigint", parallelism=3))
    keys = [None, *(TYPES[kind](chosen) for _ in range(300))]
    for way in (1 << 28, 0, 1 << 28):
        monkeypatch.setattr(direct_input, "_READ_AGAIN", way)
        some = chosen.choices(keys, k=400)
        frame = spark.createDataFrame([(key, at) for at, key in enumerate(some)], f"k {kind}, v bigint")
        path = rows.path / f"{len(ran)}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(frame.toArrow(), path)
        checkpoints.take()
    assert ran == ["direct [[0, 1, 2]]", "spark", "direct [[0, 1, 2]]"]
    read = spark.read.schema(f"k {kind}, v bigint").parquet(str(rows.path))
    grouped = read.groupBy("k").agg(F.count("*"), F.sum("v"), F.max("v"))
    assert repr(checkpoints.rows("state:totals")) == repr(in_order(grouped.collect()))


@pytest.fixture
def staged_by(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who staged each table: the subtasks by themselves, or Spark."""
    ways: list[str] = []
    direct, sink = OperatorJobs._staged_directly, OperatorJobs._sink

    def note_direct(self: OperatorJobs, *given: Any) -> bool:
        if done := direct(self, *given):
            ways.append("direct")
        return done

    def note_sink(self: OperatorJobs, *given: Any) -> DataFrame:
        ways.append("spark")
        return sink(self, *given)

    monkeypatch.setattr(OperatorJobs, "_staged_directly", note_direct)
    monkeypatch.setattr(OperatorJobs, "_sink", note_sink)
    return ways


@pytest.mark.parametrize("kind", TYPES)
def test_of_each_key_the_last_row_is_staged_once(
    kind: str, spark: SparkSession, tmp_path: Path, staged_by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Spark and without it, of the same rows, in which keys come again and again."""
    chosen, keys = random.Random(3), [None, *(TYPES[kind](random.Random(n)) for n in range(40))]
    texts = [None if key is None else str(key) for key in keys]
    batches = [[(text, at) for at, text in enumerate(chosen.choices(texts, k=30))] for _ in range(5)]
    tables = {}
    for name, limit in (("spark", 0), ("direct", 1 << 28)):
        monkeypatch.setattr(direct_input, "_READ_AGAIN", limit)
        monkeypatch.setattr(direct_input, "SMALL", 1000)  # several Spark tasks
        source = Listed("text string, v bigint", step=100)
        running = Running(changes_of(source, kind, tmp_path / name), spark, tmp_path / name)
        for batch in batches:
            source.put(0, *batch)
            running.until_idle()
            if batch is batches[2]:
                running.take()
        running.take()
        tables[name] = sorted(rows_of(tmp_path / name / "changes"), key=repr)
    assert staged_by == ["spark", "spark", "direct", "direct"]
    assert repr(tables["direct"]) == repr(tables["spark"])
    assert tables["direct"]


def changes_of(source: Listed, kind: str, tables: Path) -> Pipeline:
    pipeline = Pipeline("changes", parallelism=3)
    rows = pipeline.source("rows", source).transform(lambda frame: frame.selectExpr(f"cast(text as {kind}) as k", "v"))
    rows.key_by("k").aggregate("totals", n=count(), v=sum_("v")).sink("changes", ParquetSink(str(tables / "changes")))
    return pipeline


def test_what_a_transform_makes_of_changes_is_staged_by_spark(
    spark: SparkSession, tmp_path: Path, staged_by: list[str]
) -> None:
    source = Listed("k bigint, v bigint", step=100)
    pipeline = Pipeline("changes", parallelism=2)
    totals = pipeline.source("rows", source).key_by("k").aggregate("totals", n=count())
    totals.transform(lambda frame: frame.where("n = 1")).sink("once", ParquetSink(str(tmp_path / "once")))
    pipeline_rows = totals.transform(lambda frame: frame)
    pipeline_rows.sink("all", ParquetSink(str(tmp_path / "all")))
    running = Running(pipeline, spark, tmp_path)
    source.put(0, (1, 1), (2, 1), (2, 2))
    running.until_idle()
    running.take()
    assert staged_by == ["spark", "spark"]
    assert [row["k"] for row in rows_of(tmp_path / "once")] == [1]
    assert len(rows_of(tmp_path / "all")) == 2
