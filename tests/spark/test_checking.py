"""A definition is checked on a real session without data: what a run would refuse is said, all of it at once."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate import FileSource, ParquetSink, Pipeline, Update, count, expect, max_, suite, sum_
from tidegate.pipeline.graph import compile_graph
from tidegate.pipeline.streams import Stream
from tidegate.quality.definition import wrong_expectations
from tidegate.spark.checking import DefinitionCheck

Build = Callable[[Pipeline, Stream], None]
SCHEMA = "customer string, amount int"


def said(build: Build, spark: SparkSession, directory: Path) -> list[str]:
    """The directory that the source names does not even exist."""
    pipeline = Pipeline("shop", parallelism=1)
    orders = pipeline.source("orders", FileSource(str(directory / "none"), schema=SCHEMA))
    build(pipeline, orders)
    graph = compile_graph(pipeline)
    check = DefinitionCheck(graph, spark, str(directory / "checkpoints"))
    problems = check.problems()
    assert not list(directory.iterdir())
    return problems + wrong_expectations(graph, check.columns())


def totals(stream: Stream, directory: Path = Path("tables"), **options: Any) -> Stream:
    found = stream.key_by("customer").aggregate("totals", n=count(), total=sum_("amount"), **options)
    found.sink("totals", ParquetSink(str(directory / "totals"), mode="latest"))
    return found


def keyed(function: Callable[..., Any], output: str | None = None) -> Build:
    def build(pipeline: Pipeline, orders: Stream) -> None:
        operator = pipeline.keyed("last", inputs=[orders], key=["customer"], state=SCHEMA, output=output)(function)
        operator.transform(lambda rows: rows.withColumn("late", F.col("missing_here"))).sink(
            "o", ParquetSink("tables/o")
        )

    return build


def raising(*frames: Any) -> Any:
    raise KeyError("my own mistake")


def checked(query: Callable[..., Any], *expectations: Any) -> Build:
    def build(pipeline: Pipeline, orders: Stream) -> None:
        totals(orders)
        orders.sink("raw", ParquetSink("tables/raw"))
        given = suite("sums", *(expectations or [expect("table_row_count_to_equal", value=0)]))
        pipeline.check("sums", sinks=["raw", "totals"], expect=given)(query)

    return build


MISTAKES: dict[str, tuple[Build, list[str]]] = {
    "a column that a transform took": (
        lambda p, o: totals(o.transform(lambda rows: rows.drop("amount"))),
        ["The operator 'totals' of pipeline 'shop' needs column 'amount', but its input has only customer."],
    ),
    "a transform that raises": (
        lambda p, o: totals(o.transform(raising)),
        ["A transform after 'orders' of pipeline 'shop' raised KeyError: 'my own mistake'"],
    ),
    "a transform of a column that is not there": (
        lambda p, o: o.transform(lambda rows: rows.select("nothing")).sink("raw", ParquetSink("tables/raw")),
        ["A transform after 'orders' of pipeline 'shop' raised AnalysisException: [UNRESOLVED_COLUMN"],
    ),
    "a sum of text": (
        lambda p, o: totals(o.transform(lambda rows: rows.withColumn("amount", F.lit("x")))),
        ["The operator 'totals' of pipeline 'shop' cannot be run: "],
    ),
    "a transform that returns a pandas DataFrame": (
        lambda p, o: o.transform(lambda rows: rows.toPandas()).sink("raw", ParquetSink("tables/raw")),
        [
            "A transform after 'orders' of pipeline 'shop' returned a pandas DataFrame instead of a Spark DataFrame. "
            "Leave out toPandas(), or work on pandas inside mapInPandas or applyInPandas."
        ],
    ),
    "a transform without a return": (
        lambda p, o: o.transform(lambda rows: None).sink("raw", ParquetSink("tables/raw")),
        ["A transform after 'orders' of pipeline 'shop' returned nothing instead of a Spark DataFrame. Is a return"],
    ),
    "columns that a table cannot hold": (
        lambda p, o: o.transform(
            lambda rows: rows.selectExpr("null as x", "named_struct('at', null) as y", "interval 1 day as took")
        ).sink("raw", ParquetSink("tables/raw")),
        [
            "The sink 'raw' of pipeline 'shop' cannot store its rows: column 'x' has no type, because it is always "
            "null. Give it one, such as cast(null as string) as x."
        ],
    ),
    "types that Parquet does not have": (
        lambda p, o: o.transform(lambda rows: rows.selectExpr("array(interval 1 day) as took", "1 as n")).sink(
            "raw", ParquetSink("tables/raw")
        ),
        ["The sink 'raw' of pipeline 'shop' cannot store its rows: column 'took' has type list<"],
    ),
    "names that readers of a table do not tell apart": (
        lambda p, o: o.transform(lambda rows: rows.selectExpr("1 as n", "2 as N", "3 as Checkpoint")).sink(
            "raw", ParquetSink("tables/raw")
        ),
        [
            "cannot store its rows: there are several columns 'n', whose names readers do not tell apart: rename one; "
            "column 'checkpoint' has the name of the partition column of checkpoint=<id>/: rename it."
        ],
    ),
    "a key with a collation": (
        lambda p, o: totals(o.transform(lambda rows: rows.withColumn("customer", F.collate("customer", "UNICODE_CI")))),
        ["The operator 'totals' of pipeline 'shop' compares 'customer', which is a string collate UNICODE_CI"],
    ),
    "the largest of a column with a collation": (
        lambda p, o: (
            o.transform(lambda rows: rows.withColumn("name", F.collate("customer", "UTF8_LCASE")))
            .key_by("amount")
            .aggregate("names", last=max_("name"))
        ),
        ["The operator 'names' of pipeline 'shop' compares 'name', which is a string collate UTF8_LCASE"],
    ),
    "a function over a key with a collation": (
        lambda p, o: p.keyed(
            "last",
            inputs=[o.transform(lambda rows: rows.withColumn("customer", F.collate("customer", "UTF8_LCASE")))],
            key=["customer"],
            state=SCHEMA,
        )(lambda orders, state: orders),
        ["The operator 'last' of pipeline 'shop' compares 'customer', which is a string collate UTF8_LCASE"],
    ),
    "a join by a key with a collation": (
        lambda p, o: o.transform(lambda rows: rows.select(F.collate("customer", "UTF8_LCASE").alias("customer"))).join(
            o.transform(lambda rows: rows.withColumn("customer", F.collate("customer", "UTF8_LCASE"))),
            name="joined",
            key=["customer"],
        ),
        ["The operator 'joined' of pipeline 'shop' compares 'customer', which is a string collate UTF8_LCASE"],
    ),
    "a function with other columns, and nothing of what follows": (
        keyed(lambda orders, state: orders.select("customer")),
        ["The function of operator 'last' of pipeline 'shop' returned the columns customer."],
    ),
    "a function that raises": (
        keyed(raising),
        ["The function of operator 'last' of pipeline 'shop' raised KeyError: 'my own mistake'."],
    ),
    "rows of another type": (
        keyed(lambda orders, state: Update(orders, orders.select("amount")), output="amount string"),
        ["The function of operator 'last' of pipeline 'shop' emits rows whose columns have other types"],
    ),
    "what follows a function that is right": (
        keyed(lambda orders, state: orders),
        ["A transform after 'last' of pipeline 'shop' raised AnalysisException: [UNRESOLVED_COLUMN"],
    ),
    "rand() in front of an operator's function": (
        keyed(lambda orders, state: orders.withColumn("amount", (F.rand() * 10).cast("int"))),
        ["The result of the function of operator 'last' of pipeline 'shop' is not deterministic, because of rand("],
    ),
    "a query that raises": (
        checked(raising),
        ["The query of check 'sums' of pipeline 'shop' raised KeyError: 'my own mistake'"],
    ),
    "a query that returns no frame": (
        checked(lambda raw, totals: 7),
        ["The query of check 'sums' of pipeline 'shop' returned an int instead of a Spark DataFrame."],
    ),
    "an expectation on a column that a query does not have": (
        checked(lambda raw, totals: raw.select("customer"), expect("column_values_to_not_be_null", column="custmer")),
        ["names a column 'custmer', but its rows have only customer. Is 'customer' meant?"],
    ),
    "an expectation on a column that a transform took": (
        lambda p, o: o.transform(lambda rows: rows.drop("amount")).sink(
            "raw", ParquetSink("tables/raw"), expect=suite("s", expect("column_values_to_not_be_null", column="amount"))
        ),
        ["Suite 's' of sink:raw in pipeline 'shop': expect_column_values_to_not_be_null names a column 'amount'"],
    ),
    "an expectation that does not exist, and one with wrong arguments": (
        lambda p, o: (
            totals(o, expect=suite("a", expect("column_values_to_be_odd", column="n"))),
            o.sink("raw", ParquetSink("tables/raw"), expect=suite("b", expect("column_values_to_not_be_null"))),
        ),
        [
            "Suite 'a' of state:totals in pipeline 'shop': Great Expectations does not know expect_column",
            "Suite 'b' of sink:raw in pipeline 'shop': expect_column_values_to_not_be_null has wrong arguments: column",
        ],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_run_would_refuse_is_said_without_data(name: str, spark: SparkSession, tmp_path: Path) -> None:
    build, expected = MISTAKES[name]
    problems = said(build, spark, tmp_path)
    assert len(problems) == len(expected), problems
    for problem, part in zip(problems, expected, strict=True):
        assert part in problem


def test_a_function_that_cannot_be_sent_to_workers_is_said_without_a_traceback(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = threading.Lock()

    def locked(rows: Any) -> Any:
        return rows.withColumn("amount", F.udf(lambda amount: amount if lock else 0, "int")("amount"))

    (problem,) = said(lambda p, o: o.transform(locked).sink("raw", ParquetSink("tables/raw")), spark, tmp_path)
    assert "raised PicklingError: Could not serialize object: TypeError: cannot pickle '_thread.lock'" in problem
    assert "Open connections, sessions, locks and files inside the function" in problem
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "build",
    [
        lambda p, o: totals(o, expect=suite("a", expect("column_values_to_be_between", column="n", min_value=1))),
        checked(lambda raw, totals: raw.groupBy().sum("amount").crossJoin(totals.groupBy().sum("total"))),
        lambda p, o: o.transform(
            lambda rows: rows.withColumn("drawn", F.rand()), deterministic=False, name="drawn"
        ).sink("raw", ParquetSink("tables/raw")),
    ],
)
def test_nothing_is_said_of_what_is_right(build: Build, spark: SparkSession, tmp_path: Path) -> None:
    assert said(build, spark, tmp_path) == []
