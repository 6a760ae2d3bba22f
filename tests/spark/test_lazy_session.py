"""Spark SQL begins with what first needs it: a checkpoint whose jobs are of Spark's core needs none."""

import json
from pathlib import Path
from typing import Any

import pytest
from own_processes import printed
from pyspark.sql import SparkSession
from spark_checkpoints import Landing

from tidegate.sources.files import FileSource
from tidegate.spark.driver.columns import are_alike, declared

pytestmark = pytest.mark.spark

OPENED = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pyspark.sql import SparkSession
from tidegate.spark.session.sessions import REQUIRED, SparkSettings, open_session
session = open_session(SparkSettings.local(2))

def known_to_java():
    return session._get_j_spark_session_class(session._jvm).getDefaultSession().isDefined()
"""


def said(program: str, *arguments: str) -> Any:
    """What a process of its own prints at last, as JSON."""
    return json.loads(printed(OPENED + program + "\nsession.stop()", *arguments).splitlines()[-1])


def test_a_checkpoint_of_small_parquet_files_and_its_judged_table_need_no_spark_sql(tmp_path: Path) -> None:
    landing = Landing(tmp_path / "landing")
    for k in ("a", "b"):
        landing.put(k=[k, "c"])
    program = """
from spark_checkpoints import Checkpoints
from tidegate import FileSource, ParquetSink, Pipeline, count, expect, suite
from tidegate.assembly import Settings, open_validator
root = Path(sys.argv[1])
source = FileSource(str(root / "landing"), format="parquet", schema="k STRING", max_files_per_checkpoint=1)
pipeline = Pipeline("counts", parallelism=2)
counted = pipeline.source("rows", source).key_by("k").aggregate("counted", n=count())
rules = [expect("expect_column_values_to_not_be_null", column="k"),
         expect("expect_column_values_to_be_between", column="n", min_value=1, max_value=9)]
counted.sink("table", ParquetSink(str(root / "table"), mode="latest"), expect=suite("counted", *rules))
checkpoints = Checkpoints(pipeline, session, root)
settings = Settings(root, checkpoints.storage.url, str(root / "cache"), root / "docs")
validator = open_validator(checkpoints.graph, lambda: checkpoints.region, settings)
seen = []
for _ in range(2):
    checkpoints.take()
    verdicts = validator.validate(checkpoints.record(), checkpoints.records())
    assert [verdict.success for verdict in verdicts] == [True], verdicts
    seen.append([session.has_begun, known_to_java()])
rows = sorted(checkpoints.rows("state:counted"))
seen.append([session.has_begun, known_to_java()])
print(json.dumps([seen, rows]))
"""
    seen, rows = said(program, str(tmp_path))
    assert seen == [[False, False], [False, False], [True, True]]
    assert rows == [["a", 1], ["b", 1], ["c", 2]]


def test_it_begins_once_and_is_the_session_of_its_process_from_the_start() -> None:
    program = """
before = [SparkSession.active() is session, known_to_java(), session.has_begun]
with ThreadPoolExecutor(4) as threads:
    javas = list(threads.map(lambda _: session._jsparkSession, range(8)))
    actives = list(threads.map(lambda _: session.range(1) and SparkSession.getActiveSession() is session, range(8)))
_ = session.range(1)
here = SparkSession.getActiveSession() is session
again = SparkSession.builder.config("spark.sql.shuffle.partitions", "7").getOrCreate()
other = session.newSession()
other.conf.set("spark.sql.shuffle.partitions", "5")
print(json.dumps({
    "before": before, "one": len({java.hashCode() for java in javas}), "actives": actives, "here": here,
    "again": again is session, "partitions": [session.conf.get("spark.sql.shuffle.partitions"),
                                              other.conf.get("spark.sql.shuffle.partitions")],
    "required": {key: session.conf.get(key) for key in REQUIRED} == REQUIRED, "rows": other.range(3).count(),
}))
"""
    assert said(program) == {
        "before": [True, False, False],
        "one": 1,
        "actives": [True] * 8,
        "here": True,
        "again": True,
        "partitions": ["7", "5"],
        "required": True,
        "rows": 3,
    }


def test_what_a_user_has_made_before_is_taken_and_wrong_options_are_refused_at_once() -> None:
    program = """
session.stop()
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
same = open_session(SparkSettings.local(1)) is session
zone = session.conf.get("spark.sql.session.timeZone")
session.stop()
try:
    open_session(SparkSettings.local(1, {"spark.sql.shuffle.partitions": "many"}))
except Exception as error:
    print(json.dumps([same, zone, type(error).__name__, "spark.sql.shuffle.partitions" in str(error)]))
session = SparkSession.builder.getOrCreate()
"""
    assert said(program) == [True, "UTC", "ConfigurationError", True]


@pytest.mark.parametrize("how", ["by hand", "a name is gone"])
def test_without_shortcuts_spark_sql_begins_with_the_session_and_does_all(tmp_path: Path, how: str) -> None:
    landing = Landing(tmp_path / "landing")
    landing.put(k=["a", "c"])
    landing.put(k=["b", "c"])
    program = """
import dataclasses, json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from spark_checkpoints import Checkpoints
from tidegate import FileSource, Pipeline, count
from tidegate.spark.driver import direct_input, run_job
from tidegate.spark.session import jvm, lazy_session, sessions
if sys.argv[2] == "by hand":
    os.environ["TIDEGATE_SHORTCUTS"] = "none"
else:
    for module in (direct_input, jvm, lazy_session, run_job, sessions):
        names = (*module.SHORTCUT.names, "pyspark:gone")
        module.SHORTCUT = dataclasses.replace(module.SHORTCUT, names=names)
session = sessions.open_session(sessions.SparkSettings.local(2, {"spark.sql.shuffle.partitions": "3"}))
root = Path(sys.argv[1])
source = FileSource(str(root / "landing"), format="parquet", schema="k STRING", max_files_per_checkpoint=1)
pipeline = Pipeline("counts", parallelism=2)
pipeline.source("rows", source).key_by("k").aggregate("counted", n=count())
checkpoints = Checkpoints(pipeline, session, root)
for _ in range(2):
    checkpoints.take()
executions = session._jsparkSession.sharedState().statusStore().executionsList().size()
print(json.dumps([type(session) is SparkSession, executions > 0, sorted(checkpoints.rows("state:counted"))]))
session.stop()
"""
    said = json.loads(printed(program, str(tmp_path), how).splitlines()[-1])
    assert said == [True, True, [["a", 1], ["b", 1], ["c", 2]]]


@pytest.mark.parametrize(
    "ddl",
    ["k STRING, n INT NOT NULL COMMENT 'how many', d DECIMAL(9,2)", "at TIMESTAMP, local TIMESTAMP_NTZ, day DATE",
     "`a b` BINARY, `c``d` DOUBLE, T BOOLEAN", "a TINYINT, b SMALLINT, c FLOAT, d BIGINT"],
)  # fmt: skip
def test_declared_columns_are_those_of_the_frame(spark: SparkSession, tmp_path: Path, ddl: str) -> None:
    (tmp_path / "landing").mkdir()
    source = FileSource(str(tmp_path / "landing"), format="parquet", schema=ddl)
    assert declared(source.schema) == source.read(spark, []).schema


@pytest.mark.parametrize(
    "ddl",
    [
        "k VARCHAR(10)",
        "k CHAR(3)",
        "k STRING COLLATE UTF8_LCASE",
        "k ARRAY<INT>",
        "k INTERVAL DAY",
        "INT",
        "k k",
        "k INT, K INT",
    ],
)
def test_columns_of_other_types_are_asked_of_the_frame(spark: SparkSession, ddl: str) -> None:
    assert declared(ddl) is None
    assert not are_alike(spark.sql("select array(1) as a").schema)
