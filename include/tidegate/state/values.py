"""Single values in the types of state columns: a key given by a user, or a default in a definition."""

from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa

from tidegate.protocol.facts.errors import PipelineDefinitionError

NOT_A_VALUE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def value_array(kind: pa.DataType, value: object) -> pa.Array:
    """Return an Arrow array of one value. Text stands for a value of any type, as Spark writes it. Moments without a
    zone are in UTC. Raise one of `NOT_A_VALUE` if the value does not fit."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and pa.types.is_temporal(kind):  # Arrow would count its units
        raise TypeError
    if isinstance(value, float) and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):  # Arrow would cut it off
        value = str(int(value) if value.is_integer() else value)
    if isinstance(value, str) and pa.types.is_time(kind):
        value = time.fromisoformat(value)
    if not isinstance(value, str) or pa.types.is_string(kind):
        return pa.array([value], kind)
    text = pa.array([value], pa.string())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            return text.cast(kind)
        except pa.ArrowInvalid:  # no zone
            return text.cast(pa.timestamp("us")).cast(kind)
    return text.cast(kind)


def stored_default(name: str, kind: pa.DataType, value: object) -> bool | int | float | str:
    """Return a default in the form of the metadata of runs (JSON). Raise `PipelineDefinitionError` if it is not a value
    of the column's type."""
    kept = str(value) if isinstance(value, Decimal | date | datetime | time) else value
    try:
        if not isinstance(kept, bool | int | float | str):
            raise TypeError
        if isinstance(kept, str) is not isinstance(value, str) and pa.types.is_string(kind):
            raise TypeError
        value_array(kind, kept)
    except NOT_A_VALUE as error:
        raise PipelineDefinitionError(f"The default {value!r} of column {name!r} is not of type {kind}.") from error
    return kept
