"""A real Spark session, and a pipeline whose targets are given as DataFrames."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from records import record

from tidegate.pipeline.aggregates import count
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.expectations import ExpectationSuite
from tidegate.pipeline.graph import Graph, compile_graph
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.records import CheckpointRecord, Verdict
from tidegate.quality.validator import GreatExpectationsValidator
from tidegate.sinks.parquet import ParquetSink
from tidegate.sources.files import FileSource


@pytest.fixture
def checkpoint() -> CheckpointRecord:
    return record(7, pipeline_id="flight_delays", request_id="manual__2026-01-01")


@pytest.fixture(scope="session")
def graph_of() -> Callable[..., Graph]:
    """flights -> carriers (keyed by carrier) -> sink carriers, with a check `totals` over that sink if asked."""

    def build(
        sink: ExpectationSuite | None = None,
        state: ExpectationSuite | None = None,
        check: ExpectationSuite | None = None,
    ) -> Graph:
        pipeline = Pipeline("flight_delays")
        flights = pipeline.source("flights", FileSource("landing", format="csv", schema="carrier string"))
        carriers = flights.key_by("carrier").aggregate("carriers", flights=count(), expect=state)
        # Behind a transform nobody knows the columns, so that a test may judge any.
        carriers.transform(lambda rows: rows).sink("carriers", ParquetSink("tables/carriers"), expect=sink)
        if check is not None:
            pipeline.check("totals", sinks=["carriers"], expect=check)(lambda staged: staged)
        return compile_graph(pipeline)

    return build


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return tmp_path / "docs"


@pytest.fixture
def judge(checkpoint: CheckpointRecord, graph_of: Callable[..., Graph], docs: Path) -> Callable[..., Verdict]:
    """Judge one DataFrame as the staged rows of sink `carriers`, or as the state of its operator, by one suite."""

    def judge_(frame: DataFrame | None, suite: ExpectationSuite, kind: str = "sink") -> Verdict:
        def frames(target: Target, subtasks: Any, record: Any) -> DataFrame | None:
            return frame

        (verdict,) = GreatExpectationsValidator(graph_of(**{kind: suite}), frames, docs).validate(checkpoint, {})
        return verdict

    return judge_
