"""Conversion of values found in data into JSON of bounded size that any reader accepts.

It decides how a value is shown, not which values are kept. It does not import numpy or Spark: their scalars and rows
are recognised by their methods.
"""

import math
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

MAX_ITEMS = 20
MAX_TEXT = 500


def json_value(value: object, local: bool = False) -> Any:
    """Return `value` as strict JSON: no NaN, at most `MAX_ITEMS` items per list and `MAX_TEXT` characters per string.

    Decimals and times become strings without loss. NaN and the infinities become "NaN", "Infinity" and "-Infinity".
    With `local`, naive datetimes are moments in the process's time zone, as Spark collects TIMESTAMP columns, and are
    shown in UTC.
    """
    match value:
        case None | bool() | int():
            return value
        case Enum():
            return json_value(value.value)
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case str():
            return value if len(value) <= MAX_TEXT else f"{value[:MAX_TEXT]}… ({len(value)} characters)"
        case Decimal():
            return format(value, "f") if value.is_finite() else str(value)
        case datetime():
            return (value.astimezone(UTC) if local and value.tzinfo is None else value).isoformat()
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return json_value(bytes(value).hex())
    return _composite(value, local)


def json_object(values: Mapping[str, Any], local: Collection[str] = ()) -> dict[str, Any]:
    """Apply `json_value` to each entry. `local` names the entries whose naive datetimes are in the process's time
    zone."""
    return {name: json_value(value, name in local) for name, value in values.items()}


def _composite(value: object, local: bool) -> Any:
    if hasattr(value, "asDict"):  # a Spark row
        value = value.asDict()
    if isinstance(value, Mapping):
        return {str(key): json_value(item, local) for key, item in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        kept = [json_value(item, local) for item in value[:MAX_ITEMS]]
        return kept if len(value) <= MAX_ITEMS else [*kept, f"… ({len(value)} items)"]
    if hasattr(value, "item"):  # a numpy scalar
        return json_value(value.item(), local)
    return json_value(str(value))


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
