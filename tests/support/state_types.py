"""Every atomic type that a column of state may have, with two values of it: a small one and a large one."""

import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa

NOON = datetime(2013, 1, 1, 12, 0, 0, 123456)
TYPES = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127]),
    "smallint": (pa.int16(), [-32768, 32767]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (pa.float32(), [-math.inf, 1.5]),
    "double": (pa.float64(), [1e-300, math.inf]),
    "decimal(9,2)": (pa.decimal128(9, 2), [Decimal("-1234567.89"), Decimal("0.01")]),
    "decimal(38,10)": (pa.decimal128(38, 10), [Decimal("-" + "9" * 28 + ".0123456789"), Decimal("1.0000000000")]),
    "string": (pa.string(), ["", "ünïcode"]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime(1960, 1, 1, tzinfo=UTC), NOON.replace(tzinfo=UTC)]),
    "timestamp_ntz": (pa.timestamp("us"), [datetime(1960, 1, 1), NOON]),
    "time": (pa.time64("ns"), [time(0, 0), time(23, 59, 59, 999999)]),
    "interval day to second": (pa.duration("us"), [timedelta(days=-3), timedelta(microseconds=1)]),
}
EVERY = [(name, kind, values) for name, (kind, values) in TYPES.items()]
