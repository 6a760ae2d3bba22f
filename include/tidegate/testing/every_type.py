"""Columns of every Spark type, with values that are easily lost: the largest, the smallest, the empty."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

_FIRST, _LAST = datetime(1582, 10, 15), datetime(9999, 12, 31, 23, 59, 59, 999_999)
_NOW = datetime(2026, 11, 28, 13, 10, 0, 123_456)

#: Arrow's type and the values, by Spark's name of the type.
EVERY_TYPE: Mapping[str, tuple[pa.DataType, Sequence[Any]]] = {
    "BOOLEAN": (pa.bool_(), [True, False]),
    "TINYINT": (pa.int8(), [-(2**7), 2**7 - 1]),
    "SMALLINT": (pa.int16(), [-(2**15), 2**15 - 1]),
    "INT": (pa.int32(), [-(2**31), 2**31 - 1]),
    "BIGINT": (pa.int64(), [-(2**63), 2**63 - 1, 2**53 + 1]),
    "FLOAT": (pa.float32(), [1.5, -0.25]),
    "DOUBLE": (pa.float64(), [0.1, 1e308, 5e-324, float("inf"), -0.0]),
    "DECIMAL(38, 18)": (pa.decimal128(38, 18), [Decimal("-0.000000000000000001"), Decimal("9" * 20 + "." + "9" * 18)]),
    "STRING": (pa.string(), ["", "ä\n\t'\"\\", "日本語 🛩", "NULL"]),
    "BINARY": (pa.binary(), [b"", b"\x00\xff"]),
    "DATE": (pa.date32(), [_FIRST.date(), date(1970, 1, 1), _LAST.date()]),
    "TIMESTAMP": (pa.timestamp("us", "UTC"), [each.replace(tzinfo=UTC) for each in (_FIRST, _NOW, _LAST)]),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), [_FIRST, _NOW, _LAST]),
    "ARRAY<INT>": (pa.list_(pa.int32()), [[], [1, None, 3]]),
    "STRUCT<a: INT, b: STRING>": (pa.struct({"a": pa.int32(), "b": pa.string()}), [{"a": 1, "b": None}]),
    "MAP<STRING, BIGINT>": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1), ("b", None)]]),
    "ARRAY<STRUCT<a: DATE>>": (pa.list_(pa.struct({"a": pa.date32()})), [[{"a": date(2000, 2, 29)}]]),
}
