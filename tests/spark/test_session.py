"""Settings of a session, what travels with it, and where rows go on it."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.protocol.facts.errors import ConfigurationError
from tidegate.protocol.facts.keygroups import key_group_of, subtask_of
from tidegate.spark.driver.hashing import key_expressions, subtask_expression
from tidegate.spark.session import packaging
from tidegate.spark.session.sessions import SparkSettings, adopt_session
from tidegate.state.layout import StateLayout

pytestmark = pytest.mark.spark


def test_the_environment_names_a_master_or_a_remote() -> None:
    assert SparkSettings.from_environment({}).master == "local[2]"
    assert SparkSettings.from_environment({"TIDEGATE_SPARK_MASTER": "local[1]"}).master == "local[1]"
    assert SparkSettings.from_environment({"TIDEGATE_SPARK_REMOTE": "sc://127.0.0.1:1"}).remote == "sc://127.0.0.1:1"
    with pytest.raises(ConfigurationError, match="either a master or a remote"):
        SparkSettings.from_environment({"TIDEGATE_SPARK_MASTER": "local", "TIDEGATE_SPARK_REMOTE": "sc://h:1"})


def test_connections_are_completed() -> None:
    assert SparkSettings.cluster("host:7077").master == "spark://host:7077"
    assert SparkSettings.cluster("yarn").master == "yarn"
    assert SparkSettings.cluster("k8s://https://host").master == "k8s://https://host"
    assert SparkSettings.connect("host:15002").remote == "sc://host:15002"
    with pytest.raises(ConfigurationError, match="looks like sc://"):
        SparkSettings.connect("http://host:15002")


@pytest.mark.parametrize(
    "remote",
    ["sc://host:15002;token=hidden", "sc://host:port/;token=hidden", "sc://:15002/;token=hidden",
     "sc://host/;token=hidden=", "sc://host/;use_ssl;token=hidden", "http://host/;token=hidden"],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused_without_its_token(remote: str) -> None:
    with pytest.raises(ConfigurationError, match="Spark Connect address") as refused:
        SparkSettings(remote=remote)
    assert "hidden" not in str(refused.value)
    with pytest.raises(ConfigurationError) as refused:
        SparkSettings(master="local", remote="sc://host/;token=hidden")
    assert "hidden" not in str(refused.value)


def test_a_session_of_the_users_is_set_to_utc(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    adopt_session(spark)
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_a_udf_directly_over_parquet_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    """Spark 4.2.0 hangs here without the setting that `adopt_session` makes (SPARK-58241)."""
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    doubled = F.udf(lambda number: 2 * number, "bigint")
    rows = spark.read.parquet(str(tmp_path / "rows")).select(doubled("id")).collect()
    assert sorted(row[0] for row in rows) == [0, 2, 4]


def test_the_archive_holds_what_executors_need_and_no_more() -> None:
    with zipfile.ZipFile(packaging._archive()) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.startswith(("tidegate/airflow", "tidegate/cli", "tidegate/ui"))]


#: What runs in Spark tasks, or is imported by what reads and writes rows there.
SENT = ("spark.executor", "sinks", "sources", "state", "iceberg", "kafka", "postgres_sink", "postgres_source")


def test_whatever_a_task_imports_is_in_the_archive() -> None:
    """A worker has Python packages, and not this one."""
    archive = str(packaging._archive())
    package = Path(packaging.tidegate.__file__).parent
    places = [place for folder in SENT for place in package.joinpath(*folder.split(".")).rglob("*.py")]
    modules = sorted("tidegate." + ".".join(place.relative_to(package).with_suffix("").parts) for place in places)
    program = (
        "import importlib, sys\n"
        f"sys.path = [{archive!r}, *(place for place in sys.path if not place.endswith(('/include', '/examples')))]\n"
        "import tidegate\n"
        f"assert tidegate.__file__.startswith({archive!r}), tidegate.__file__\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 8])
def test_spark_puts_every_row_on_the_partition_of_its_subtask(spark: SparkSession, parallelism: int) -> None:
    columns = pa.schema([("a b`c", pa.int64()), ("s", pa.string())])
    layout = StateLayout.of_rows(columns, ("a b`c", "s"))
    rows = spark.range(2000).selectExpr("id as `a b``c`", "if(id % 7 = 0, null, cast(id as string)) as s")
    placed = (
        rows.selectExpr(*key_expressions(layout))
        .repartitionById(parallelism, F.expr(subtask_expression(parallelism, 128)))
        .select("_hash", F.spark_partition_id())
        .collect()
    )
    assert len(placed) == 2000
    for key_hash, partition in placed:
        assert partition == subtask_of(key_group_of(key_hash % 2**64, 128), parallelism, 128)
    assert {partition for _, partition in placed} == set(range(parallelism))
