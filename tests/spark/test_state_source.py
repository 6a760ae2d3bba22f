"""`spark.read.format("tidegate_state")`, on a classic session and on Connect, beside what is read without Spark."""

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession
from spark_checkpoints import in_order
from state_layouts import INPUT, kept
from state_operator import GROUPS, Operator, Workshop

from tidegate import approx_percentile, approx_top_k, collect_list, count_distinct
from tidegate.spark.session.sessions import adopt_session
from tidegate.spark.state_source import register_state_source
from tidegate.state.layout import StateLayout
from tidegate.state.reading import StateFiles, open_state

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("day", pa.date32()),
        ("n", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("span", pa.duration("us")),
        ("small", pa.int8()),
        ("real", pa.float32()),
        ("nothing", pa.null()),
    ]
)
LAYOUT = StateLayout.of_rows(SCHEMA, ["name", "day"])


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    connects = request.param == "connect"
    given = request.getfixturevalue("connect_server" if connects else "spark")
    # As a session beside the classic one of the lane: what `open_session` does would switch the whole process over.
    found = adopt_session(ConnectSession.builder.remote(given).create()) if connects else given
    for _ in range(2):
        register_state_source(found)
    yield found
    if connects:
        found.stop()


#: What is the same in every row; the other columns are null.
VALUES = {
    "day": date(1970, 1, 2),
    "at": datetime(2013, 1, 1, 12, tzinfo=UTC),
    "local": datetime(2013, 1, 1, 12),
    "price": Decimal("1.50"),
    "raw": b"\x00\xff",
    "span": timedelta(days=-3),
}


def rows(names: list[str | None], n: int, gone: bool = False) -> pa.Table:
    found = [{"name": name, "n": n, "_delete": gone, **VALUES} for name in names]
    return pa.Table.from_pylist(found, pa.schema([*SCHEMA, ("_delete", pa.bool_())]))


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(Workshop(tmp_path), LAYOUT)


Read = Callable[..., Any]


@pytest.fixture
def read(session: SparkSession, operator: Operator) -> Read:
    """What Spark reads, checked against what is read without it."""

    def read(state: Any, since: Any = None, key: str | None = None, asked: Any = None) -> list[tuple[Any, ...]]:
        files = StateFiles(str(operator.workshop.storage), str(operator.workshop.cache), state, since)
        reader = session.read.format("tidegate_state").option("files", files.to_json())
        frame = (reader if key is None else reader.option("key", key)).load()
        reading = open_state(files, asked)
        expected = pa.Table.from_batches(reading.batches(), reading.schema)
        found = frame.toArrow().sort_by("name").cast(expected.schema)
        assert found.equals(expected.sort_by("name"))
        shown = found.select([name for name in ("name", "n", "_change") if name in found.schema.names])
        return in_order([tuple(row.values()) for row in shown.to_pylist()])

    return read


def test_rows_of_every_type_a_key_and_changes_across_a_rescale(operator: Operator, read: Read, session: Any) -> None:
    operator.upsert(rows(["JFK", "LGA", None, "EWR"], 1), parallelism=2)
    before = operator.state()
    operator.upsert(rows(["JFK"], 1), parallelism=3)  # the same value again
    operator.upsert(rows(["EWR"], 1, gone=True))
    operator.upsert(rows(["BOS"], 1))
    now = operator.state()
    assert read(before) == [("EWR", 1), ("JFK", 1), ("LGA", 1), (None, 1)]
    assert read(now) == [("BOS", 1), ("JFK", 1), ("LGA", 1), (None, 1)]
    assert read(now, key='["LGA", "1970-01-02"]', asked=["LGA", "1970-01-02"]) == [("LGA", 1)]
    assert read(now, key='{"name": null, "day": "1970-01-02"}', asked=[None, "1970-01-02"]) == [(None, 1)]
    assert read(now, key='["EWR", "1970-01-02"]', asked=["EWR", "1970-01-02"]) == []
    assert read(now, before) == [("BOS", 1, "upsert"), ("EWR", None, "delete")]
    assert read(before, now, key='["EWR", "1970-01-02"]', asked=["EWR", "1970-01-02"]) == [("EWR", 1, "upsert")]


def test_arrays_and_structs_of_aggregates(tmp_path: Path, session: Any) -> None:
    declared = {
        "n": count_distinct("w"), "all": collect_list("w", limit=2), "ends": approx_percentile("w", [0, 1]),
        "top": approx_top_k("w", 1),
    }  # fmt: skip
    operator = Operator(Workshop(tmp_path), kept(**declared))
    operator.aggregate(pa.table({"k": [1, 1, 2], "w": [5, 7, None]}, pa.schema([INPUT.field("k"), INPUT.field("w")])))
    before = operator.state()
    operator.aggregate(pa.table({"k": [1, 2], "w": [5, None]}, pa.schema([INPUT.field("k"), INPUT.field("w")])))
    for since in (None, before):
        files = StateFiles(str(operator.workshop.storage), str(operator.workshop.cache), operator.state(), since)
        frame = session.read.format("tidegate_state").option("files", files.to_json()).load()
        reading = open_state(files)
        expected = pa.Table.from_batches(reading.batches(), reading.schema)
        assert in_order(frame.toArrow().to_pylist()) == in_order(expected.to_pylist())
        found = {row["k"]: row for row in expected.to_pylist()}
        if since is None:
            one = {"k": 1, "n": 2, "all": [5, 5], "ends": [5.0, 7.0], "top": [{"item": "5", "count": 2}]}
            assert found == {1: one, 2: {"k": 2, "n": 0, "all": [], "ends": None, "top": None}}
        else:
            assert found.keys() == {1}, "nothing has changed of the other"


def test_partitions_are_the_subtasks(operator: Operator, session: SparkSession) -> None:
    operator.upsert(rows([str(n) for n in range(50)], 1), parallelism=4)
    files = StateFiles(str(operator.workshop.storage), None, operator.state())
    frame = session.read.format("tidegate_state").option("files", files.to_json()).load()
    assert frame.selectExpr("spark_partition_id() as p").distinct().count() == 4
    owner = f"shiftrightunsigned(shiftrightunsigned(xxhash64(name, day), 32) * {GROUPS}L, 32) * 4 div {GROUPS}"
    assert frame.where(f"spark_partition_id() != {owner}").count() == 0
    assert frame.where("n = 1").groupBy().count().collect()[0][0] == 50


def test_names_that_were_not_resolved_and_a_wrong_key_are_told_what_to_do(operator: Operator, session: Any) -> None:
    operator.upsert(rows(["JFK"], 1))
    files = StateFiles(str(operator.workshop.storage), None, operator.state())
    reader = session.read.format("tidegate_state")
    with pytest.raises(Exception, match="received pipeline, operator, but where Spark plans a read, there is no"):
        _ = reader.option("pipeline", "flights").option("operator", "totals").load().schema
    with pytest.raises(Exception, match=r"1 value was given, and its key is \(name string, day date\)"):
        _ = session.read.format("tidegate_state").option("files", files.to_json()).option("key", "JFK").load().schema
    for run in files.state.runs:
        operator.workshop.file(run).unlink()
    with pytest.raises(Exception, match="is missing from checkpoint storage"):
        session.read.format("tidegate_state").option("files", files.to_json()).load().collect()
