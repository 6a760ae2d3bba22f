"""Mistakes in the Python of a pipeline, each as what is wrong and the lines that a module has it in.

In front of them stands `BEFORE`. They are found without data: `tidegate check`, `run` and Airflow say the same.
"""

from typing import NamedTuple

BEFORE = """
from tidegate import *
from tidegate.pipeline.update import Update

shop = Pipeline("shop")
orders = shop.source("orders", FileSource("landing", schema="customer string, amount int"))
keyed = orders.key_by("customer")
"""


class Written(NamedTuple):
    wrong: str
    lines: str


def each(*written: tuple[str, str]) -> list[Written]:
    return [Written(wrong, lines) for wrong, lines in written]


TABLE = 'ParquetSink("tables/t")'
LATEST = 'ParquetSink("tables/t", mode="latest")'

GRAPH = each(
    ("a name with a capital letter", f'shop = Pipeline("Shop")\nshop.source("a", orders).sink("t", {TABLE})'),
    ("no source", 'shop = Pipeline("shop")'),
    ("rows that go nowhere", "late = orders.transform(lambda rows: rows)"),
    ("a misspelt argument of Pipeline", 'shop = Pipeline("shop", paralelism=4)'),
    ("no parallelism", 'shop = Pipeline("shop", parallelism=0)'),
    ("more subtasks than key groups", 'shop = Pipeline("shop", parallelism=8, max_parallelism=4)'),
    ("two sources of one name", 'shop.source("orders", FileSource("other", schema="a int"))'),
    ("two sinks of one name", f'orders.sink("t", {TABLE})\norders.sink("t", ParquetSink("tables/u"))'),
    ("two sinks in one directory", f'orders.sink("t", {TABLE})\norders.sink("u", {TABLE})'),
    ("a sink where a source reads", 'orders.sink("t", ParquetSink("landing/out"))'),
    (
        "a stream of another pipeline",
        'other = Pipeline("other")\nmore = other.source("more", FileSource("m", schema="customer string"))\n'
        'more.key_by("customer").aggregate("n", n=count()).sink("t", ' + TABLE + ")\n"
        '@shop.keyed("both", inputs=[orders, more], key=["customer"], state="customer string")\n'
        "def both(orders, more, state): ...",
    ),
    ("a sink with a guarantee that there is not", f'orders.sink("t", {TABLE}, guarantee="EXACTLY_TWICE")'),
    ("a table of current rows behind a source", f'orders.sink("t", {LATEST})'),
    ("a random transform without a name", 'orders.transform(lambda rows: rows, deterministic=False).sink("t", None)'),
    ("a name for a transform that needs none", 'orders.transform(lambda rows: rows, name="same").sink("t", None)'),
    ("a check of a sink that is not there", 'orders.sink("t", ' + TABLE + ")\n"
        'shop.check("c", sinks=["u"], expect=suite("s", expect("table_row_count_to_equal", value=1)))(print)'),
    (
        "a window where nothing says the time",
        f'keyed.aggregate("n", window("at", "1 hour"), n=count()).sink("t", {TABLE})',
    ),
    ("an event time that is no time", 'shop.source("a", FileSource("a", schema="k int"), event_time="k")'),
    ("an event time that is not there", 'shop.source("a", FileSource("a", schema="k int"), event_time="at")'),
    ("a delay of no event time", 'shop.source("a", FileSource("a", schema="k int"), delay="1 h")'),
    ("windows with gaps", 'window("at", "1 hour", slide="1 d")'),
    ("late rows without windows", f'keyed.aggregate("n", n=count()).late.sink("t", {TABLE})'),
    ("a former name that is still in use", f'keyed.aggregate("n", n=count(), previous="orders").sink("t", {TABLE})'),
)  # fmt: skip

OPERATORS = each(
    ("no key", f'orders.key_by().aggregate("n", n=count()).sink("t", {TABLE})'),
    ("a column twice in a key", f'orders.key_by("customer", "customer").aggregate("n", n=count()).sink("t", {TABLE})'),
    ("a misspelt key", f'orders.key_by("custmer").aggregate("n", n=count()).sink("t", {TABLE})'),
    ("a misspelt column in an aggregate", f'keyed.aggregate("n", total=sum_("amuont")).sink("t", {TABLE})'),
    ("no aggregate", f'keyed.aggregate("n").sink("t", {TABLE})'),
    ("a column's name instead of an aggregate", f'keyed.aggregate("n", total="amount").sink("t", {TABLE})'),
    ("an aggregate that is called like the key", f'keyed.aggregate("n", customer=count()).sink("t", {TABLE})'),
    ("an aggregate with a reserved name", f'keyed.aggregate("n", _n=count()).sink("t", {TABLE})'),
    ("a list without a bound", f'keyed.aggregate("n", all=collect_list("amount")).sink("t", {TABLE})'),
    ("distinct values no end", f'keyed.aggregate("n", n=count_distinct("amount", limit=10**9)).sink("t", {TABLE})'),
    ("a percentile in per cent", f'keyed.aggregate("n", p=approx_percentile("amount", 99)).sink("t", {TABLE})'),
    ("a sum without a column", f'keyed.aggregate("n", total=sum_()).sink("t", {TABLE})'),
    ("a function without inputs", 'shop.keyed("f", inputs=[], key=["customer"], state="customer string")(print)'),
    ("an output without columns",
        'shop.keyed("f", inputs=[orders], key=["customer"], state="customer string", output="")(print)'),
    ("a table of current rows behind rows that are emitted",
        'f = shop.keyed("f", inputs=[orders], key=["customer"], state="customer string", output="n int")(print)\n'
        f'f.sink("t", {LATEST})'),
    ("a right join", 'orders.join(orders, name="j", key=["customer"], how="right")'),
    ("a left join that keeps all rows",
        f'orders.join(orders, name="j", key=["customer"], how="left").sink("t", {TABLE})'),
    ("a time to live that is no duration", f'keyed.aggregate("n", n=count(), ttl="thirty days").sink("t", {TABLE})'),
    ("a row's time, not how long it lives", f'keyed.aggregate("n", n=max_("amount"), ttl_by="n").sink("t", {TABLE})'),
    ("rows that expire by a count", f'keyed.aggregate("n", n=count(), ttl="1 d", ttl_by="n").sink("t", {TABLE})'),
)  # fmt: skip

EXPECTATIONS = each(
    ("an empty suite", 'suite("s")'),
    ("an expectation without a suite",
        f'orders.sink("t", {TABLE}, expect=expect("table_row_count_to_equal", value=1))'),
    ("a suite of names", 'suite("s", "table_row_count_to_equal")'),
    ("a suite without a name", 'suite("", expect("table_row_count_to_equal", value=1))'),
    ("an expectation on a column that is not there",
        f'orders.sink("t", {TABLE}, expect=suite("s", expect("column_values_to_not_be_null", column="amout")))'),
    ("an expectation on a column that the state does not have",
        'keyed.aggregate("n", n=count(), expect=suite("s", expect("column_values_to_not_be_null", column="amount")))'),
    ("something else to do on failure", 'expect("table_row_count_to_equal", value=1, on_failure="wait")'),
    ("a hold without an end", 'expect("table_row_count_to_equal", value=1, on_failure="hold")'),
    ("an end without a hold", 'expect("table_row_count_to_equal", value=1, hold_for="2 h")'),
    ("a hold that lasts no time", 'expect("table_row_count_to_equal", value=1, on_failure="hold", hold_for="0 s")'),
    ("a hold for years", 'expect("table_row_count_to_equal", value=1, on_failure="hold", hold_for="900 d")'),
)  # fmt: skip

SOURCES = each(
    ("no schema", 'FileSource("landing", schema="")'),
    ("a schema that is a dictionary", 'FileSource("landing", schema={"customer": "string"})'),
    ("a model with a field that no column holds",
        "from pydantic import BaseModel\nclass Order(BaseModel):\n    amount: complex\n    "
        "model_config = {'arbitrary_types_allowed': True}\nFileSource('landing', schema=Order)"),
    ("a key that looks at no case",
        'shop.source("a", FileSource("a", schema="k string collate UTF8_LCASE")).sink("t", ParquetSink("tables/t"))'),
    ("a column that must not be null",
        'shop.source("a", FileSource("a", schema="k int not null")).sink("t", ParquetSink("tables/t"))'),
    ("a format that there is not", 'FileSource("landing", format="xml", schema="a int")'),
    ("no splits", 'FileSource("landing", schema="a int", splits=0)'),
    ("a table that is read from no snapshot", 'PostgresSource("outbox", start="latest")'),
    ("a key that is no key of rows", 'PostgresSource("outbox", key="xid")'),
    ("a start that is a word of another kind", 'KafkaSource("clicks", schema="a int", start="newest")'),
    ("a start without a zone",
        'from datetime import datetime\nKafkaSource("clicks", schema="a int", start=datetime(2026, 11, 28))'),
    ("a start without an offset", 'KafkaSource("clicks", schema="a int", start={0: "12"})'),
    ("fewer rows of a topic than splits", 'KafkaSource("clicks", splits=4, schema="a int", max_rows=2)'),
    ("metadata that no record has", 'KafkaSource("clicks", schema="a int", metadata={"at": "time"})'),
    ("metadata of another type", 'KafkaSource("clicks", schema="at DATE", metadata={"at": "timestamp"})'),
    ("a quarantine for nothing", 'KafkaSource("clicks", schema="a int", quarantine=ParquetSink("tables/bad"))'),
    ("a sink of a topic without a name", 'KafkaSink("")'),
    ("a topic of current rows", 'KafkaSink("totals", mode="latest")'),
    ("upserts to a topic without a key", 'KafkaSink("totals", mode="upsert")'),
    ("upserts to a topic with another key than the state's",
        'keyed.aggregate("n", n=count()).sink("t", KafkaSink("totals", mode="upsert", key="n"))'),
    ("a format of values that there is not", 'KafkaSink("orders", format="csv")'),
    ("Avro schemas for JSON", 'KafkaSink("orders", schemas={7: "orders.avsc"})'),
    ("two sinks to one topic", 'orders.sink("t", KafkaSink("orders"))\norders.sink("u", KafkaSink("orders"))'),
    ("a topic that the pipeline reads",
        'shop.source("a", KafkaSource("clicks", schema="a int")).sink("t", KafkaSink("clicks"))'),
    ("fewer files a checkpoint than splits",
        'FileSource("landing", schema="a int", splits=4, max_files_per_checkpoint=2)'),
    ("an encoding that there is not", 'FileSource("landing", schema="a int", encoding="utf-9")'),
    ("the encoding as an option", 'FileSource("landing", schema="a int", options={"encoding": "latin1"})'),
    ("an option that decides what is read", 'FileSource("landing", schema="a int", options={"mode": "DROPMALFORMED"})'),
    ("a quote of two characters", 'FileSource("landing", schema="a int", options={"quote": "\'\'"})'),
    ("JSON with comments", 'FileSource("landing", "json", schema="a int", options={"allowComments": "true"})'),
    ("a header that is neither true nor false", 'FileSource("landing", schema="a int", options={"header": "yes"})'),
    ("an encoding of Parquet", 'FileSource("landing", format="parquet", schema="a int", encoding="latin1")'),
    ("malformed rows that are dropped", 'FileSource("landing", schema="a int", malformed="drop")'),
    ("a quarantine without a sink", 'FileSource("landing", schema="a int", malformed="quarantine")'),
    ("a quarantine of current rows",
        f'FileSource("landing", schema="a int", malformed="quarantine", quarantine={LATEST})'),
    ("a quarantine for Parquet",
        f'FileSource("landing", format="parquet", schema="a int", malformed="quarantine", quarantine={TABLE})'),
    ("two columns that differ by case", 'FileSource("landing", schema="id int, ID int")'),
    ("missing columns that are ignored", 'FileSource("landing", schema="a int", missing_columns="ignore")'),
    ("missing columns without a header",
        'FileSource("landing", schema="a int", missing_columns="null", options={"header": "false"})'),
    ("evolve, and a part of what it says",
        'FileSource("landing", schema="a int", evolve="add", missing_columns="null")'),
    ("another name of a column that is not there", 'FileSource("landing", schema="a int", aliases={"b": ["B2"]})'),
    ("another name that is a column", 'FileSource("landing", schema="a int, b int", aliases={"a": ["b"]})'),
    ("files of a type that has no room", 'FileSource("landing", schema="a int", schemas={"v1_*": "a string"})'),
    ("files of a misspelt column", 'FileSource("landing", schema="meter_id int", schemas={"v1_*": "meterid int"})'),
    ("text of Parquet that is parsed", 'FileSource("landing", "parquet", schema="a int", parsing="spark")'),
    ("an end marker in another directory", 'FileSource("landing", schema="a int", end_marker="../DONE")'),
    ("a pattern with directories", 'FileSource("landing", schema="a int", glob="2024/*.csv")'),
    ("a pattern with half of a brace", 'FileSource("landing", schema="a int", glob="*.{csv,txt")'),
    ("a pattern of names that are never data", 'FileSource("landing", schema="a int", glob="*.{tmp,part}")'),
    ("directories to leave out", 'FileSource("landing", schema="a int", exclude=["old/*"])'),
    ("one pattern to leave out, not a list", 'FileSource("landing", schema="a int", exclude="*.md")'),
    ("a partition of a type that names do not hold",
        'FileSource("landing", schema="a int", partitions="at TIMESTAMP")'),
    ("a sink's mode that there is not", 'ParquetSink("tables/t", mode="upsert")'),
    ("how long an old table is readable, in no unit", 'ParquetSink("tables/t", mode="latest", readable_for="60")'),
)  # fmt: skip

OPTIONS = each(
    ("an option that there is not", "CheckpointConfig(time_out='10 min')"),
    ("a duration without a unit", "CheckpointConfig(timeout=600)"),
    ("a duration in another language", "CheckpointConfig(timeout='10 Minuten')"),
    ("no time at all", "CheckpointConfig(timeout='0 s')"),
    ("a negative pause", "from datetime import timedelta\nCheckpointConfig(min_pause=timedelta(-1))"),
    ("no checkpoint at once", "CheckpointConfig(max_concurrent=0)"),
    ("several unaligned checkpoints at once", "CheckpointConfig(max_concurrent=2, unaligned=True)"),
    ("a number as text", "CheckpointConfig(retained='5')"),
    ("a retention that there is not", "CheckpointConfig(retention='KEEP')"),
    ("a mode that there is not", "CheckpointConfig(mode='AT_MOST_ONCE')"),
    ("fewer than no failures", "CheckpointConfig(tolerable_failed_checkpoints=-1)"),
    ("an interval that is too short", "CheckpointConfig(interval='1 ms')"),
    ("an interval for a backlog alone", "CheckpointConfig(interval_during_backlog='1 min')"),
    ("a shorter interval behind a backlog", "CheckpointConfig(interval='1 min', interval_during_backlog='1 s')"),
    ("unaligned barriers at least once", "CheckpointConfig(unaligned=True, mode='AT_LEAST_ONCE')"),
    ("stale at once", "CheckpointConfig(stale_after='0 s')"),
)  # fmt: skip
