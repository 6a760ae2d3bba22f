"""What Spark would compute otherwise the next time, on a classic session and on Spark Connect, is refused by name."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from continuous_checkpoints import Running
from listed import Listed
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession
from spark_checkpoints import Checkpoints, Landing

from tidegate import FileSource, ParquetSink, Pipeline
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.sources import parsing
from tidegate.sources.directory import Directory
from tidegate.sources.names import is_finished
from tidegate.sources.parquet_footers import Footers
from tidegate.spark.driver.determinism import nondeterministic_parts
from tidegate.spark.session.sessions import adopt_session

pytestmark = pytest.mark.spark

Change = Callable[[Any], Any]


@pytest.fixture(scope="module")
def connect(connect_server: str) -> Iterator[Any]:
    session = ConnectSession.builder.remote(connect_server).create()
    yield adopt_session(session)  # type: ignore[arg-type]
    session.stop()


@pytest.fixture(params=["classic", "connect"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    return spark if request.param == "classic" else request.getfixturevalue("connect")


def expr(text: str) -> Change:
    return lambda df: df.selectExpr("*", f"{text} as drawn")


def grouped(text: str) -> Change:
    return lambda df: df.groupBy("k").agg({"id": text})


def through_a_view(df: Any) -> Any:
    df.selectExpr("id", "now() as at").createOrReplaceTempView("hidden")
    return df.sparkSession.table("hidden")


def named_after_calls(df: Any) -> Any:
    return df.toDF("now()", "first(k)")


def in_a_wide_row(df: Any) -> Any:
    return df.selectExpr("*", *(f"id + {at} as c{at}" for at in range(40)), "current_date() as today")


REFUSED = {
    "rand()": expr("rand()"),
    "rand() ": expr("rand(7)"),  # the seed is one of a Spark partition, and how rows fall on these may differ
    "randn()": expr("randn()"),
    "uuid()": expr("uuid()"),
    "shuffle()": expr("shuffle(array(id, k))"),
    "monotonically_increasing_id()": expr("monotonically_increasing_id()"),
    "spark_partition_id()": expr("spark_partition_id()"),
    "input_file_name()": expr("input_file_name()"),
    "rand()  ": lambda df: df.where("id in (select id from range(5) where rand() < 0.5)"),
    "current_timestamp()": expr("current_timestamp()"),
    "current_timestamp() ": expr("unix_timestamp()"),
    "now()": expr("now()"),
    "now() ": through_a_view,
    "current_date()": in_a_wide_row,
    "localtimestamp()": expr("localtimestamp()"),
    "sample": lambda df: df.sample(0.5),
    "sample ": lambda df: df.sample(0.5, seed=3),
    "sample  ": lambda df: df.randomSplit([0.5, 0.5])[0],
    "limit": lambda df: df.limit(3),
    "limit ": lambda df: df.orderBy("k").limit(3),
    "limit  ": lambda df: df.where("id in (select id from range(5) limit 2)"),
    "offset": lambda df: df.offset(1),
    "dropDuplicates() on some of the columns": lambda df: df.dropDuplicates(["k"]),
    "first() of a group": grouped("first"),
    "last() of a group": grouped("last"),
    "any_value() of a group": grouped("any_value"),
}

ACCEPTED = {
    "nothing": lambda df: df,
    "distinct": lambda df: df.distinct(),
    "all duplicates": lambda df: df.dropDuplicates(),
    "groups": lambda df: df.groupBy("k").agg({"id": "sum"}),
    "lists": grouped("collect_list"),
    "windows": lambda df: df.selectExpr("first(id) over (partition by k order by id) as f"),
    "exchanged": lambda df: df.repartition(3, "k").sortWithinPartitions("id"),
    "a self join": lambda df: df.join(df.withColumnRenamed("id", "other"), "k"),
    "no rows": lambda df: df.limit(0),
    "the user": expr("current_user()"),
    "columns that are named after calls": lambda df: (
        named_after_calls(df).select("now()", "first(k)").groupBy("now()").count()
    ),
    "a UDF over rows": lambda df: df.mapInArrow(lambda batches: batches, "id bigint, k bigint"),
    "a UDF over groups": lambda df: df.groupBy("k").applyInPandas(lambda rows: rows, "id bigint, k bigint"),
}


def rows_of(session: Any) -> Any:
    return session.range(10).selectExpr("id", "id % 3 as k")


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_from_one_computation_to_the_next_is_named(session: Any, name: str) -> None:
    assert nondeterministic_parts(REFUSED[name](rows_of(session))) == (name.strip(),)


def test_a_thread_without_a_session_of_its_own_sees_all_of_a_plan(session: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(nondeterministic_parts, in_a_wide_row(rows_of(session))).result() == ("current_date()",)


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_gives_the_same_rows_each_time_is_accepted(session: Any, name: str) -> None:
    assert nondeterministic_parts(ACCEPTED[name](rows_of(session))) == ()


def test_a_function_that_is_marked_so_is_not_deterministic(spark: SparkSession, connect: Any) -> None:
    from pyspark.sql.connect import functions as CF
    from pyspark.sql.functions import udf

    marked = rows_of(spark).select(udf(lambda x: x, "bigint").asNondeterministic()("id"))
    assert nondeterministic_parts(marked) == ("a function that is marked as not deterministic",)
    marked = rows_of(connect).select(CF.udf(lambda x: x, "bigint").asNondeterministic()("id"))
    assert nondeterministic_parts(marked) == ("a function that is marked as not deterministic",)


@pytest.mark.parametrize(("format", "quarantined"), [("csv", True), ("json", True), ("csv", False), ("parquet", False)])
def test_how_files_are_read_is_deterministic(
    format: str, quarantined: bool, spark: SparkSession, tmp_path: Path
) -> None:
    directory = tmp_path / "in"
    rows_of(spark).write.format(format).option("header", "true").save(str(directory))
    options: dict[str, Any] = {"format": format, "schema": "id bigint, k bigint"}
    if quarantined:
        options |= {"malformed": "quarantine", "quarantine": ParquetSink(str(tmp_path / "bad"))}
    files = [file for file in Directory(str(directory)).files().versions() if is_finished(file.path)]
    assert files
    for output in ["rows", "malformed"] if quarantined else ["rows"]:
        frame = parsing.frame(
            FileSource(str(directory), **options), spark, str(directory), files, output, (), Footers()
        )
        assert nondeterministic_parts(frame) == ()


def numbers(landing: Landing, change: Change, tables: Path) -> Pipeline:
    pipeline = Pipeline("drawn")
    rows = pipeline.source("rows", FileSource(str(landing.path), format="parquet", schema="k bigint")).transform(change)
    for name in ("a", "b", "c"):
        rows.sink(name, ParquetSink(str(tables / name)))
    return pipeline


def test_consumers_that_would_see_different_rows_are_refused(
    landing: Callable[[str], Landing], open_checkpoints: Callable[[Pipeline], Checkpoints], tmp_path: Path
) -> None:
    rows = landing("rows")
    rows.put(k=list(range(100)))
    checkpoints = open_checkpoints(numbers(rows, lambda df: df.where("rand() < 0.5"), tmp_path))
    refused = (
        r"The input of sink '[abc]' of pipeline 'drawn' from 'rows' is not deterministic, because of rand\(\): every "
        r"consumer and every retry would compute different rows\. .* stream\.transform\(function, "
        r'deterministic=False, name="…"\)'
    )
    with pytest.raises(PipelineDefinitionError, match=refused):
        checkpoints.take()
    assert all(subtask.operator_id == "rows" for subtask in checkpoints.acknowledged)


def test_a_function_over_state_must_be_deterministic(
    landing: Callable[[str], Landing], open_checkpoints: Callable[[Pipeline], Checkpoints]
) -> None:
    rows, pipeline = landing("rows"), Pipeline("drawn")
    source = pipeline.source("rows", FileSource(str(rows.path), format="parquet", schema="k bigint"))

    @pipeline.keyed("luck", inputs=[source], key=["k"], state="k bigint, luck double")
    def luck(batch: Any, state: Any) -> Any:
        return batch.distinct().selectExpr("k", "rand() as luck")

    rows.put(k=[1, 2])
    refused = r"The result of the function of operator 'luck' of pipeline 'drawn' is not deterministic, because of rand"
    with pytest.raises(PipelineDefinitionError, match=refused):
        open_checkpoints(pipeline).take()


def test_a_continuous_run_refuses_them_too(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, source = Pipeline("drawn"), Listed("k bigint")
    rows = pipeline.source("rows", source).transform(lambda df: df.withColumns({}).selectExpr("k", "uuid() as id"))
    rows.sink("ids", ParquetSink(str(tmp_path / "ids")))
    running = Running(pipeline, spark, tmp_path)
    source.put(0, (1,), (2,))
    running.until_idle()
    running.begin()
    running.until_idle()
    assert ["because of uuid()" in declined.message for declined in running.declined] == [True]
