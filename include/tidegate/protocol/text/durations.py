"""Durations as users write them (`10 min`, `0 s`, `500 ms`, `1 h 30 min`) and as Spark writes them (`1 hour`)."""

import re
from datetime import timedelta

from tidegate.protocol.facts.errors import PipelineDefinitionError

_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "min": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_SPELT_OUT = {"second": "s", "minute": "min", "hour": "h", "day": "d"}
_PART = re.compile(r"\s*(\d+)\s*(?:(ms|s|min|h|d)|(second|minute|hour|day)s?)\b")


def duration(text: str | timedelta) -> timedelta:
    """Parse a duration. Raises `PipelineDefinitionError` with the accepted form, or for one that is too long."""
    if isinstance(text, timedelta):
        return text
    total, at = timedelta(), 0
    text = str(text)  # a bare number has no unit, and is refused below
    while match := _PART.match(text, at):
        try:
            total += int(match[1]) * _UNITS[match[2] or _SPELT_OUT[match[3]]]
        except (OverflowError, ValueError):  # ValueError: of thousands of digits
            raise PipelineDefinitionError(f"{text[:100]!r} is longer than any duration.") from None
        at = match.end()
    if at == 0 or text[at:].strip():
        raise PipelineDefinitionError(
            f"{text!r} is not a duration. Write a whole number and a unit (ms, s, min, h, d), such as '10 min'."
        )
    return total


def written(duration: timedelta) -> str:
    """Format a duration as `30 min` or `1 h 30 min`, without parts of a millisecond. `duration` parses the result.

    Performs no I/O.
    """
    parts = []
    for unit, size in _UNITS.items():
        count, duration = divmod(duration, size)
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts) or "0 s"
