"""Readings of meters from files that drift: types changed, a column was added, and one was renamed.

The table has a row for each meter that was read more than once: the average reading and the highest voltage.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, count, max_, sum_

READINGS = "meter_id BIGINT, at TIMESTAMP, value DOUBLE"
FIRST_FILES = {"v1_*.csv": "meter INT, at TIMESTAMP, value INT"}
FIRST_NAMES = {"meter_id": ["meter"]}


def readings_source(
    landing: Path, with_voltage: bool = True, aliases: Mapping[str, Sequence[str]] = FIRST_NAMES
) -> FileSource:
    schema = f"{READINGS}, voltage INT" if with_voltage else READINGS
    return FileSource(str(landing), schema=schema, evolve="add", aliases=aliases, schemas=FIRST_FILES)


def meters_pipeline(
    readings: FileSource,
    tables: Path,
    parallelism: int = 2,
    checkpoints: CheckpointConfig | None = None,
    wrap_sink: Callable[[Any], Any] = lambda sink: sink,
) -> Pipeline:
    pipeline = Pipeline("meters", parallelism=parallelism, max_parallelism=16, checkpoints=checkpoints)
    has_voltage = "voltage" in readings.file_schema
    volts: dict[str, Any] = {"volts": max_("voltage")} if has_voltage else {}
    by_meter = pipeline.source("readings", readings).key_by("meter_id")
    meters = by_meter.aggregate("meters", readings=count(), total=sum_("value"), **volts)
    table = meters.transform(shown_with_volts if has_voltage else shown)
    table.sink("meters", wrap_sink(ParquetSink(str(tables / "meters"), mode="latest")))
    return pipeline


def shown(meters: Any) -> Any:
    return meters.where("readings > 1").selectExpr("meter_id AS meter", "total / readings AS mean")


def shown_with_volts(meters: Any) -> Any:
    return meters.where("readings > 1").selectExpr("meter_id AS meter", "total / readings AS mean", "volts")
