"""The types of state columns: one Arrow type for each atomic type of Spark, and for arrays of them. They are named as
in Spark SQL, so that anyone can read Parquet metadata."""

import pyarrow as pa

from tidegate.protocol.facts.errors import PipelineDefinitionError, StateSchemaError

_NAMES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.time64("ns"): "time",
    pa.duration("us"): "interval day to second",
    pa.null(): "void",
}
_TYPES = {name: arrow for arrow, name in _NAMES.items()}
_ARRAY = "array<"


def type_name(arrow: pa.DataType) -> str:
    """Return the Spark SQL name of an Arrow type."""
    if pa.types.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in arrow)}>"
    if pa.types.is_list(arrow):
        return f"{_ARRAY}{type_name(arrow.value_type)}>"
    return _NAMES[arrow]


def type_of(sql: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL name. Raise `StateSchemaError` for one that this version does not know."""
    if sql.startswith(_ARRAY):
        return list_of(type_of(sql.removeprefix(_ARRAY).removesuffix(">")))
    if sql.startswith("decimal("):
        precision, scale = sql.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    if sql not in _TYPES:
        raise StateSchemaError(
            f"State was written with a column of type {sql!r}, which this version of Tidegate does not know. It was "
            "probably written by a newer one: use that version. Nothing was changed."
        )
    return _TYPES[sql]


def list_of(arrow: pa.DataType) -> pa.DataType:
    """Return an Arrow list with the part names of Parquet and Spark."""
    return pa.list_(pa.field("element", arrow))


def stored_type(name: str, arrow: pa.DataType) -> pa.DataType:
    """Return the type of `plain_type`, or a list of it for lists, which only aggregates keep."""
    return list_of(plain_type(name, arrow.value_type)) if pa.types.is_list(arrow) else plain_type(name, arrow)


def is_number(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_decimal128(arrow))


def has_text(arrow: pa.DataType) -> bool:
    """Return whether values have distinct texts."""
    exact = pa.types.is_string(arrow) or pa.types.is_integer(arrow) or pa.types.is_decimal128(arrow)
    moment = pa.types.is_date32(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_boolean(arrow)
    return bool(exact or moment)


def plain_type(name: str, arrow: pa.DataType) -> pa.DataType:
    """Return the one Arrow type that state uses for the types that Spark may send (time zones, large strings)."""
    if pa.types.is_timestamp(arrow):
        return pa.timestamp("us", tz="UTC" if arrow.tz else None)
    if pa.types.is_large_string(arrow):
        return pa.string()
    if pa.types.is_large_binary(arrow):
        return pa.binary()
    if arrow in _NAMES or pa.types.is_decimal128(arrow):
        return arrow
    raise PipelineDefinitionError(
        f"Column {name!r} has the type {arrow}, which keyed state cannot hold. Use an atomic type, for example a "
        "string of JSON for nested values."
    )
