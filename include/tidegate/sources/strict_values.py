"""Text as values of declared types, strictly: ISO dates and times, plain numbers, the digits of a decimal.

Spark accepts more: `10:15:00` as a time of today, `2026` as a day, `12f` as a number, `1,5` as fifteen. Such values
look plausible and are wrong. Here the text is matched with a pattern first, inside Spark, and only then converted.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)"
_DAY = r"\d{4}-\d\d-\d\d"
_TIME = r"[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?"
_ZONE = r" ?(Z|UTC|[+-]\d\d(:?\d\d)?)"

_PATTERNS = {
    "boolean": r"(?i)true|false",
    "byte": r"[+-]?0*(12[0-7]|1[01]\d|\d{1,2})|-0*128",
    **dict.fromkeys(("short", "integer", "long"), r"[+-]?\d+"),
    **dict.fromkeys(("float", "double"), rf"{_NUMBER}([eE][+-]?\d+)?|[+-]?(?i:NaN|Inf|Infinity)"),
    "date": _DAY,
    "timestamp": rf"{_DAY}({_TIME}({_ZONE})?)?",
    "timestamp_ntz": rf"{_DAY}({_TIME})?",
}
#: JSON itself defines numbers and truth values, but not the range of a byte: Spark takes 200 as -56.
_OF_JSON = ("date", "timestamp", "timestamp_ntz", "decimal", "byte")
_FORMATS = {
    "date": "dateformat",
    "timestamp": "timestampformat",
    "timestamp_ntz": "timestampntzformat",
    "decimal": "locale",
}
_INFINITE = {"nanvalue": "NaN", "positiveinf": "Infinity", "negativeinf": "-Infinity"}


def is_checked(type_: "DataType", format: str, options: Mapping[str, str]) -> bool:
    """Whether text of a scalar type is matched with a pattern. An option that sets its form takes precedence.
    `options` have lower-case names."""
    kind = type_.typeName()
    if _FORMATS.get(kind) in options:
        return False
    return kind in _OF_JSON or (format == "csv" and kind in _PATTERNS)


def value_of(text: "Column", type_: "DataType", options: Mapping[str, str]) -> "Column":
    """Return the values for a column of texts: null where the text is null or no value of the type."""
    from pyspark.sql import functions as F

    kind = type_.typeName()
    if kind in ("float", "double"):
        for option, name in _INFINITE.items():
            if option in options:
                text = F.when(text == options[option], F.lit(name)).otherwise(text)
        number = text.try_cast(type_)
        overflown = F.abs(number) == float("inf")
        return F.when(is_value(text, type_) & ~(overflown & text.rlike(r"\d")), number)
    fits = is_value(text, type_)
    zone = options.get("timezone")
    if kind == "timestamp" and zone is not None:
        moment = F.concat(
            text, F.when(F.length(text) == 10, " 00:00:00").when(F.length(text) == 16, ":00").otherwise("")
        )
        has_zone = text.rlike(rf"{_TIME}{_ZONE}\z")
        text = F.when(has_zone, text).otherwise(F.concat(moment, F.lit(f" {zone}")))
    return F.when(fits, text.try_cast(type_))


def is_value(text: "Column", type_: "DataType") -> "Column":
    """Whether a text is written as a value of the type. It may still be out of range."""
    from pyspark.sql.types import DecimalType

    if isinstance(type_, DecimalType):
        return _is_decimal(text, type_.scale)
    return text.rlike(rf"\A({_PATTERNS[type_.typeName()]})\z")


def has_checked(type_: "DataType", format: str, options: Mapping[str, str]) -> bool:
    """Whether a type is checked, or has a checked type inside."""
    return any(is_checked(each, format, options) for each in _leaves(type_))


def as_text(type_: "DataType", format: str, options: Mapping[str, str]) -> "DataType":
    """Return a type with STRING in the place of every checked type."""
    from pyspark.sql import types as T

    if isinstance(type_, T.ArrayType):
        return T.ArrayType(as_text(type_.elementType, format, options))
    if isinstance(type_, T.MapType):
        return T.MapType(type_.keyType, as_text(type_.valueType, format, options))
    if isinstance(type_, T.StructType):
        return T.StructType([T.StructField(f.name, as_text(f.dataType, format, options)) for f in type_.fields])
    return T.StringType() if is_checked(type_, format, options) else type_


def all_fit(text: "Column", type_: "DataType", format: str, options: Mapping[str, str]) -> "Column":
    """Whether every checked value in a column of type `as_text(type_)` is written as one. Null where it is null."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    def inner(part: "Column", of: "DataType") -> "Column":
        return F.coalesce(all_fit(part, of, format, options), F.lit(True))

    if not has_checked(type_, format, options):
        return F.lit(True)
    if isinstance(type_, T.ArrayType):
        return F.forall(text, lambda item: inner(item, type_.elementType))
    if isinstance(type_, T.MapType):
        return F.forall(F.map_values(text), lambda item: inner(item, type_.valueType))
    if isinstance(type_, T.StructType):
        return F.least(F.lit(True), *(inner(text.getField(f.name), f.dataType) for f in type_.fields))
    return is_value(text, type_)


def _leaves(type_: "DataType") -> "list[DataType]":
    from pyspark.sql import types as T

    if isinstance(type_, T.ArrayType):
        return _leaves(type_.elementType)
    if isinstance(type_, T.MapType):
        return _leaves(type_.valueType)
    if isinstance(type_, T.StructType):
        return [leaf for field in type_.fields for leaf in _leaves(field.dataType)]
    return [type_]


def _is_decimal(text: "Column", scale: int) -> "Column":
    """Whether a text is a plain number with at most `scale` digits behind its point, apart from zeros at its end."""
    from pyspark.sql import functions as F

    digits = rf"\d{{0,{scale}}}0*"
    plain = text.rlike(rf"\A[+-]?(\d+(\.{digits})?|\.(?=\d){digits})\z")
    behind = F.length(F.regexp_extract(text, r"\.(\d*?)0*[eE]", 1))
    exponent = F.regexp_extract(text, r"[eE]\+?(-?\d{1,3})\z", 1).try_cast("int")
    scientific = text.rlike(rf"\A{_NUMBER}[eE][+-]?\d{{1,3}}\z") & (behind - exponent <= scale)
    return plain | scientific
