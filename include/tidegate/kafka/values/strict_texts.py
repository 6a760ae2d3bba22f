"""Parses text as dates, times, decimals and bytes, as strictly as `sources/strict_values.py` does in Spark.

A column of texts is converted at once if all are written in the usual way, otherwise one by one. The result is None if
the text is no value of the type.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as of

_DAY = r"(\d{4})-(\d\d)-(\d\d)"
_ZONE = r" ?(?:Z|UTC|([+-])(\d\d)(?::?(\d\d))?)"
_MOMENT = re.compile(rf"{_DAY}(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{{1,9}}))?)?({_ZONE})?)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_DAY_ONLY = re.compile(_DAY, re.ASCII)

#: The usual notations of producers, which Arrow parses by itself.
_USUAL_DAY = r"^\d{4}-\d\d-\d\d$"
_USUAL_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?"
_USUAL = {True: _USUAL_TIME + r"(Z|[+-](0\d|1[0-7]):?[0-5]\d)$", False: _USUAL_TIME + "$"}

_DAYS_OF_400_YEARS = 146_097
_EPOCH = date(1970, 1, 1).toordinal()
_FARTHEST = 18 * 60  # minutes, of a zone


def is_text(kind: pa.DataType) -> bool:
    """Whether JSON has values of a type as text, and they are matched with a pattern."""
    return any(test(kind) for test in (of.is_date, of.is_timestamp, of.is_binary, of.is_large_binary))


def reading(kind: pa.DataType) -> Callable[[str], int | bytes | Decimal | None]:
    """Return the parser for texts of a type."""
    if of.is_date(kind):
        return day
    if of.is_timestamp(kind):
        return moment if kind.tz is not None else local_moment
    if of.is_decimal(kind):
        return lambda text: decimal(text, kind.precision, kind.scale)
    return base64_bytes


def typed(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return a column of texts in its type; None if one of them is no value of it."""
    if not (of.is_binary(kind) or of.is_large_binary(kind)) and (found := _usual(texts, kind)) is not None:
        return found
    read = reading(kind)
    values = [None if text is None else read(text) for text in texts.to_pylist()]
    return pa.array(values, kind) if values.count(None) == texts.null_count else None


def _usual(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    is_zoned = of.is_timestamp(kind) and kind.tz is not None
    if not (is_zoned and _is_plain_utc(texts)):
        pattern = _USUAL_DAY if of.is_date(kind) else _USUAL[is_zoned]
        if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
            return None
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:  # such as the 30th of February
        return None


def _is_plain_utc(texts: pa.StringArray) -> bool:
    """Whether all are times with minutes, seconds and a Z, if they are times at all. Faster than a pattern."""
    texts = texts.drop_null() if texts.null_count else texts
    if not len(texts):
        return True
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4)
    starts, ends = bounds[:-1], bounds[1:]
    if data is None or (ends - starts).min() < len("2026-01-02T10:15:00Z"):
        return False
    letters = np.frombuffer(data, np.uint8)
    colons = (letters[starts + 13] == ord(":")) & (letters[starts + 16] == ord(":"))
    return bool((colons & (letters[ends - 1] == ord("Z"))).all())


def day(text: str) -> int | None:
    """Return days since 1970."""
    found = _DAY_ONLY.fullmatch(text)
    return None if found is None else _day(found[1], found[2], found[3])


def local_moment(text: str) -> int | None:
    """Return microseconds since 1970 for a time without a zone."""
    found = _MOMENT.fullmatch(text)
    return None if found is None or found[8] is not None else _moment(found)


def moment(text: str) -> int | None:
    """Return microseconds since 1970. A time without a zone is in UTC, as in Spark's sessions."""
    found = _MOMENT.fullmatch(text)
    return None if found is None else _moment(found)


def _day(year: str, month: str, of_month: str) -> int | None:
    try:  # Python has no year 0, and calendars repeat after 400 years
        return date(int(year) + 400, int(month), int(of_month)).toordinal() - _DAYS_OF_400_YEARS - _EPOCH
    except ValueError:
        if int(year) + 400 <= 9999:
            return None
    try:
        return date(int(year), int(month), int(of_month)).toordinal() - _EPOCH
    except ValueError:
        return None


def _moment(found: re.Match[str]) -> int | None:
    days = _day(found[1], found[2], found[3])
    hour, minute, second = (int(each or 0) for each in found.group(4, 5, 6))
    east = int(found[10] or 0) * 60 + int(found[11] or 0)
    if days is None or hour > 23 or max(minute, second, int(found[11] or 0)) > 59 or east > _FARTHEST:
        return None
    minutes = (days * 24 + hour) * 60 + minute - (-east if found[9] == "-" else east)
    return (minutes * 60 + second) * 1_000_000 + int((found[7] or "0")[:6].ljust(6, "0"))


def decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Return a number with at most `scale` digits behind its point, apart from zeros at its end."""
    if _NUMBER.fullmatch(text) is None:
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    while exponent < -scale and digits and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if exponent < -scale and any(digits):
        return None
    unscaled = int("".join(map(str, digits)) or "0") * 10 ** max(0, exponent + scale)
    if abs(unscaled) >= 10**precision:
        return None
    return Decimal((sign, tuple(map(int, str(unscaled))), -scale))


def base64_bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
