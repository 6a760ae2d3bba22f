"""A scheduled run in every checkpointing mode: the barrier handlers and barriers differ, the tables do not."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sizes import later
from spark_checkpoints import Checkpoints, Landing

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count
from tidegate.clock import SystemClock
from tidegate.dataflow.elements import Aligned, Output
from tidegate.dataflow.input_gate import InputGate
from tidegate.dataflow.operator_chains import build_chains
from tidegate.protocol.barriers.aligned import AlignedBarrierHandler
from tidegate.protocol.barriers.tracker import BarrierTracker
from tidegate.protocol.barriers.unaligned import UnalignedBarrierHandler
from tidegate.protocol.facts.records import CheckpointKind

pytestmark = pytest.mark.spark

Open = Callable[[Pipeline], Checkpoints]
Land = Callable[[str], Landing]


def joining(flights: Landing, weather: Landing, tables: Path, config: CheckpointConfig) -> Pipeline:
    """An operator whose barriers come at different times: from two splits at once, and behind another operator."""
    pipeline = Pipeline("joining", checkpoints=config)
    flown = pipeline.source(
        "flights", FileSource(str(flights.path), format="parquet", schema="carrier string, place string")
    )
    winds = pipeline.source(
        "weather", FileSource(str(weather.path), format="parquet", schema="place string, wind bigint", splits=2)
    )
    places = flown.key_by("place").aggregate("places", flights=count())

    @pipeline.keyed("windy", inputs=[winds, places], key=["place"], state="place string, wind bigint, flights bigint")
    def windy(winds: Any, places: Any, state: Any) -> Any:
        both = winds.groupBy("place").max("wind").withColumnRenamed("max(wind)", "wind")
        return both.join(places, "place", "full_outer").select("place", "wind", "flights")

    windy.sink("windy", ParquetSink(str(tables / "windy"), mode="latest"))
    flown.sink("flown", ParquetSink(str(tables / "flown")))
    return pipeline


MODES = [
    ({}, AlignedBarrierHandler),
    later({"alignment_limit": 1}, AlignedBarrierHandler),
    ({"mode": "AT_LEAST_ONCE"}, BarrierTracker),
    later({"unaligned": True}, UnalignedBarrierHandler),
    ({"unaligned": True, "aligned_checkpoint_timeout": "1 ms"}, UnalignedBarrierHandler),
]


@pytest.mark.parametrize(("options", "handler"), MODES, ids=lambda value: str(getattr(value, "__name__", value)))
def test_a_scheduled_run_gives_the_same_tables_in_every_mode(
    options: dict[str, Any],
    handler: type,
    landing: Land,
    open_checkpoints: Open,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flights, weather = landing("flights"), landing("weather")
    checkpoints = open_checkpoints(joining(flights, weather, tmp_path, CheckpointConfig(**options)))
    assert {type(chain.gate._handler) for chain in build_chains(checkpoints.graph, SystemClock())} == {handler}
    aligned: list[Aligned] = []
    drain = InputGate.drain

    def watched(gate: InputGate) -> list[Output]:
        outputs = drain(gate)
        aligned.extend(output for output in outputs if isinstance(output, Aligned))
        return outputs

    monkeypatch.setattr(InputGate, "drain", watched)
    flights.put(carrier=["UA", "AA"], place=["JFK", "JFK"])
    weather.put(place=["JFK", "LGA"], wind=[3, 4])
    weather.put(place=["LGA"], wind=[9])
    checkpoints.take()
    assert checkpoints.rows("sink:windy") == [("JFK", 3, 2), ("LGA", 9, None)]
    assert checkpoints.rows("sink:flown") == [("AA", "JFK"), ("UA", "JFK")]
    flights.put(carrier=["B6"], place=["JFK"])
    checkpoints.take()
    assert checkpoints.rows("sink:windy") == [("JFK", None, 3), ("LGA", 9, None)]
    assert checkpoints.rows("sink:flown") == [("B6", "JFK")]
    assert len(aligned) == 2 * len(build_chains(checkpoints.graph, SystemClock()))
    assert not any(each.captured for each in aligned), "there is no place to keep data in flight"
    assert {ack.metrics.persisted_bytes for ack in checkpoints.acknowledged.values()} == {0}


def test_a_savepoint_of_a_scheduled_run_is_taken_where_checkpoints_are_unaligned(
    landing: Land, open_checkpoints: Open, tmp_path: Path
) -> None:
    flights, weather = landing("flights"), landing("weather")
    weather.path.mkdir(parents=True)
    checkpoints = open_checkpoints(joining(flights, weather, tmp_path, CheckpointConfig(unaligned=True)))
    flights.put(carrier=["UA"], place=["JFK"])
    task = checkpoints.task
    checkpoints.task = lambda: replace(task(), kind=CheckpointKind.SAVEPOINT)
    checkpoints.take()
    assert checkpoints.rows("sink:windy") == [("JFK", None, 1)]
