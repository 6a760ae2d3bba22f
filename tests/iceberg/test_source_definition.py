"""`IcebergSource` in a pipeline: when the catalog is asked for columns, what a poll takes, and what a restore reads."""

import json

import pyarrow as pa
import pytest
from marts import values

from tidegate import IcebergSink, IcebergSource, ParquetSink, Pipeline
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import Snapshot, SourceContext
from tidegate.protocol.facts.errors import SourceUnavailableError
from tidegate.settings import Settings
from tidegate.spark.checking import DefinitionCheck


def silver(event_time=None, **options):
    pipeline = Pipeline("silver")
    rows = pipeline.source("rows", IcebergSource("db.out", **options), event_time=event_time)
    rows.sink("out", ParquetSink("tables/out"))
    return pipeline


@pytest.fixture
def bronze(mart):
    return mart(out=IcebergSink("db.out"), retained=1)


def poll(source, position, max_bytes=None):
    segment, taken = source.poll(0, position, SourceContext(None, 1, "x", max_bytes=max_bytes))
    return segment, Snapshot((), json.loads(json.dumps(taken.position)))


def test_the_definition_asks_no_catalog(monkeypatch):
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", "postgresql+psycopg2://nobody@127.0.0.1:1/nothing")
    graph = compile_graph(silver("at"))
    assert graph.sources[0].declared_schema is None
    with pytest.raises(SourceUnavailableError, match=r"Table db\.out cannot be read"):
        _ = graph.sources[0].schema


@pytest.mark.spark
def test_the_check_of_the_definition_asks_it(bronze, spark):
    def problems(event_time):
        return DefinitionCheck(compile_graph(silver(event_time)), spark, Settings.from_environment().storage).problems()

    [problem] = problems(None)
    assert "there is no such table yet" in problem
    bronze.take(out=pa.table({"v": [1], "at": pa.array([0], pa.timestamp("us", "UTC"))}))
    assert problems("at") == []
    [problem] = problems("v")
    assert "The event_time of source 'rows' of pipeline 'silver' is 'v', which is BIGINT" in problem


@pytest.mark.parametrize(("own", "of_poll", "taken"), [(None, 1, 1), (10**6, 1, 1), (1, 10**6, 1), (10**6, 10**6, 3)])
def test_a_poll_takes_what_both_limits_allow(mart, own, of_poll, taken):
    bronze = mart(out=IcebergSink("db.out"))
    for number in (1, 2, 3):
        bronze.take(out=values(number))
    source = IcebergSource("db.out", schema="v BIGINT", max_bytes=own)
    segment, position = poll(source, None, of_poll)
    assert len(source.arrow_reader([segment]).ranges) == taken
    assert source.is_behind(0, segment) is (taken < 3)
    assert poll(source, position)[0] is not None or taken == 3


def test_a_plan_says_what_is_read_again_and_what_has_expired(bronze):
    bronze.take(out=values(1))
    source = IcebergSource("db.out", schema="v BIGINT")
    _, first = poll(source, None)
    bronze.take(out=values(2))
    _, second = poll(source, first)
    again = source.read_since(0, first, second, None)
    assert (again.pieces, again.missing) == (1, ())
    assert again.bytes > 0
    assert source.read_since(0, second, second, None).pieces == 0
    assert source.read_since(0, None, second, None).pieces == 2
    for number in (3, 4, 5):
        bronze.take(out=values(number))
        bronze.coordinator.clean()
    [missing] = source.read_since(0, first, second, None).missing
    assert missing == f"db.out up to snapshot {second.position['to']['snapshot']}"
