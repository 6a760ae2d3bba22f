"""Behind state, a transform that is not row-wise is refused by name, on a classic session and on Spark Connect; and so
is one that loses the key."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from derived_script import Loose
from listed import Listed
from mirrors import Mirror
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.connect import functions as connect_functions
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
from pyspark.sql.connect.session import SparkSession as ConnectSession
from spark_checkpoints import Checkpoints

from tidegate import ParquetSink, Pipeline, count, sum_
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.spark.checking import DefinitionCheck
from tidegate.spark.driver.derived import derived_rows
from tidegate.spark.driver.streams import Streams
from tidegate.spark.session.sessions import adopt_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def connect(connect_server: str) -> Iterator[Any]:
    session = ConnectSession.builder.remote(connect_server).create()
    yield adopt_session(session)  # type: ignore[arg-type]
    session.stop()


@pytest.fixture(params=["classic", "connect"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    return spark if request.param == "classic" else request.getfixturevalue("connect")


class Keyed(Mirror):
    @property
    def keys(self) -> tuple[str, ...]:
        return ("id", "b.c")


def totals(transform: Any, sink: Any) -> Any:
    pipeline = Pipeline("totals")
    events = pipeline.source("events", Listed("a string, c string, v bigint"))
    named = events.transform(lambda rows: rows.withColumnRenamed("c", "b.c"))
    total = named.key_by("a", "b.c").aggregate("total", n=count(), v=sum_("v"))
    total.transform(transform).sink("out", sink)
    return compile_graph(pipeline)


def problems(session: Any, transform: Any, sink: Any, where: Path) -> list[str]:
    return DefinitionCheck(totals(transform, sink), session, str(where)).problems()


def viewed(rows: Any) -> Any:
    rows.createOrReplaceTempView("totals")
    return rows.sparkSession.sql("select a as `Id`, `b.c`, named.n * 2 as twice from totals as named where n > 0")


def python(rows: Any) -> Any:
    made = connect_functions if isinstance(rows, ConnectFrame) else F
    return rows.withColumn("text", made.udf(lambda n: f"{n}\n+- Join", "string")("n"))


ROW_WISE = {
    "as it is": lambda rows: rows,
    "select and rename": lambda rows: rows.withColumnRenamed("a", "id").select("n", "`b.c`", "id"),
    "a key twice": lambda rows: rows.selectExpr("*", "a as id"),
    "withColumns and drop": lambda rows: rows.withColumns({"y": rows["n"] / 2, "z": rows["n"] * 2}).drop("v"),
    "where": lambda rows: rows.filter("n > 1").where(rows["a"].isNotNull()).alias("t").select("t.*"),
    "toDF": lambda rows: rows.toDF("key", "other", "n", "v"),
    "a view": viewed,
    "a function in Python": python,
}

REFUSED = {
    "a join": lambda rows: rows.join(rows.select("a"), "a"),
    "an aggregate": lambda rows: rows.groupBy("a", "`b.c`").count(),
    "dropDuplicates()": lambda rows: rows.dropDuplicates(),
    "distinct()": lambda rows: _by_sql(rows, "select distinct * from totals"),
    "a window function": lambda rows: rows.selectExpr("*", "count(*) over (partition by a) as at"),
    "a function such as explode(), which makes several rows of one": lambda rows: rows.selectExpr(
        "*", "explode(array(n, v)) as each"
    ),
    "an order, which moves rows": lambda rows: rows.orderBy("n"),
    "union()": lambda rows: rows.union(rows),
    "repartition() or coalesce(), which moves rows": lambda rows: rows.coalesce(1),
    "mapInArrow()": lambda rows: rows.select("a").mapInArrow(lambda batches: batches, "a string"),
    "OneRowRelation": lambda rows: _by_sql(rows, "select *, (select 1) as one from totals"),
}


def _by_sql(rows: Any, text: str) -> Any:
    rows.createOrReplaceTempView("totals")
    return rows.sparkSession.sql(text)


def test_what_is_row_wise_is_told_by_sparks_analysis(session: Any, tmp_path: Path) -> None:
    latest = ParquetSink(str(tmp_path / "t"), mode="latest")
    for name, transform in ROW_WISE.items():
        assert problems(session, transform, latest, tmp_path) == [], name
    for name, transform in REFUSED.items():
        (problem,) = problems(session, transform, latest, tmp_path)
        assert f"is not computed row by row, because of {name}. The table has a row for each key" in problem, problem
    (problem,) = problems(session, lambda rows: rows.limit(3), latest, tmp_path)
    assert "is not deterministic, because of limit" in problem
    (problem,) = problems(session, lambda rows: rows.selectExpr("*", "now() as at"), latest, tmp_path)
    assert "is not deterministic, because of now()" in problem


def test_the_key_is_followed_through_renames(session: Any, tmp_path: Path) -> None:
    latest, keyed = ParquetSink(str(tmp_path / "t"), mode="latest"), Keyed(str(tmp_path / "m"), 2)
    for lost in (
        lambda rows: rows.drop("a"),
        lambda rows: rows.selectExpr("upper(a) as a", "`b.c`"),
        lambda rows: rows.selectExpr("cast(hash(a) as string) as a", "`b.c`"),
        lambda rows: rows.withColumn("a", rows["`b.c`"]),
    ):
        (problem,) = problems(session, lost, latest, tmp_path)
        assert (
            "between 'total' and sink 'out' of pipeline 'totals' lacks 'a', a column of the operator's key" in problem
        )
    (problem,) = problems(session, lambda rows: rows, keyed, tmp_path)
    assert "has the key a, b.c, but the sink has b.c, id: rows would overwrite one another" in problem
    for kept in ("a as id", "a as other, a as id", "*, a as id"):
        columns = [kept] if kept.startswith("*") else [kept, "`b.c`"]
        texts = [text.strip() for column in columns for text in column.split(",")]
        assert problems(session, lambda rows, texts=texts: rows.selectExpr(*texts), keyed, tmp_path) == []
    swapped = totals(lambda rows: rows.selectExpr("a as `b.c`", "`b.c` as id"), keyed)
    streams = Streams(swapped, session, str(tmp_path))
    layout = streams.layout(swapped.keyed[0])
    found = derived_rows(streams, swapped.sinks[0], layout, streams.empty(layout.rows))
    assert found.keys == {"a": "b.c", "b.c": "id"}
    (problem,) = problems(session, lambda rows: rows.selectExpr("*", "n as N"), latest, tmp_path)
    assert "there are several columns 'n', whose names readers do not tell apart" in problem
    (problem,) = problems(session, lambda rows: rows.withColumn("_delete", rows["n"] > 1), latest, tmp_path)
    assert "Leave out rows with where(…): their keys are removed from the table." in problem


def test_what_is_refused_is_refused_by_a_run_too(session: Any, tmp_path: Path) -> None:
    graph = totals(REFUSED["an aggregate"], ParquetSink(str(tmp_path / "t"), mode="latest"))
    streams = Streams(graph, session, str(tmp_path))
    layout = streams.layout(graph.keyed[0])
    with pytest.raises(PipelineDefinitionError, match="because of an aggregate"):
        derived_rows(streams, graph.sinks[0], layout, streams.empty(layout.rows))


def test_tables_have_it_on_either_session(session: Any, tmp_path: Path) -> None:
    source, mirror = Listed("k string, v bigint", step=100), Loose(str(tmp_path / "m"))
    pipeline = Pipeline("shown", parallelism=2, max_parallelism=16)
    total = pipeline.source("events", source).key_by("k").aggregate("total", n=count(), v=sum_("v"))
    even = total.transform(lambda rows: rows.where("v % 2 = 0").selectExpr("k as id", "v / n as mean"))
    even.sink("now", ParquetSink(str(tmp_path / "now"), mode="latest"))
    even.sink("upserted", mirror)
    checkpoints = Checkpoints(pipeline, session, tmp_path)
    for events in ([("a", 2), ("b", 3), (None, 4)], [("a", 1), ("b", 1)], [("c", 5)], [(None, 1), ("c", 1)]):
        source.put(0, *events)
        checkpoints.take()
        checkpoints.commit("upserted")
        expected = [(k, v / n) for k, n, v in checkpoints.rows("state:total") if v % 2 == 0]
        assert checkpoints.rows("sink:now") == mirror.rows() == sorted(expected, key=repr)
    assert mirror.whole == [1]
