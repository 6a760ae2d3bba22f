"""Rows of every type that Spark can write as Parquet, staged and compared."""

from typing import Any

from tidegate.ports import StageContext
from tidegate.sinks.parquet import ParquetSink

TYPES = """
select *, from_json(if(col1 is null, null, '{"y": "1900-01-01T00:00:00Z"}'), 'x int, y timestamp') as inner
from values
  (1Y, 2S, 3, 4L, float('1.5'), 2.5D, 12.34BD, cast(1 as decimal(38, 10)), true, 'ü', X'00ff', date'0001-01-01',
   timestamp'2024-03-31 01:30:00.123456Z', timestamp_ntz'2024-03-31 02:30:00.654321', timestamp'0001-01-01 00:00:00Z',
   array(1, null), map('a', 1.5D)),
  (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)
"""


def stage(sink: ParquetSink, checkpoint_id: int, frame: Any, subtask: int = 0) -> list[Any]:
    return sink.writer().stage(frame.toArrow(), StageContext(checkpoint_id, subtask, 1, f"u{subtask}"))


def values(frame: Any) -> list[str]:
    """As text made by Spark: Python has no year 0, where some of these timestamps fall in a western time zone."""
    return sorted(row[0] for row in frame.selectExpr("to_json(struct(*), map('ignoreNullFields', 'false'))").collect())


def types(frame: Any) -> list[str]:
    return [field.dataType.simpleString() for field in frame.schema]
