"""The format of figures on pages: durations, sizes, ages, counts and moments. Pure.

-1 means that no value was reported, None that there is no such thing; both are shown as a dash.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from tidegate.protocol.text.durations import written

#: The options that a checkpoint records in milliseconds.
DURATIONS = frozenset(
    {
        *("timeout", "min_pause", "retained_for", "undo_within", "interval", "interval_during_backlog"),
        *("aligned_checkpoint_timeout", "stale_after", "age"),
    }
)
DASH = "–"
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_PREFIXES = "kMGTPE"


def duration(milliseconds: float | None) -> str:
    """Format a duration as `812 ms`, `4.2 s`, `3 min 05 s`, `2 h 10 min`, `5 d 3 h`."""
    if milliseconds is None or milliseconds < 0:
        return DASH
    whole = round(milliseconds)
    if whole < _SECOND:
        return f"{whole} ms"
    if whole < _MINUTE - 50:
        return f"{whole / _SECOND:.1f} s"
    seconds = round(whole / _SECOND)
    if seconds < 3_600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    minutes = seconds // 60
    if minutes < 1_440:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // 1_440} d {minutes % 1_440 // 60} h"


def age(milliseconds: float | None) -> str:
    """Format an age in the largest unit that fits: `12 s`, `3 min`, `5 h`, `8 d`."""
    if milliseconds is None or milliseconds < 0:
        return DASH
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if milliseconds >= unit:
            return f"{int(milliseconds // unit)} {name}"
    return f"{int(milliseconds // _SECOND)} s"


def size(count: float | None) -> str:
    """Format bytes in decimal units, as the commands do."""
    if count is None or count < 0:
        return DASH
    if count < 1_000:
        return f"{round(count)} B"
    left, power = float(count), 0
    while left >= 999.95 and power < len(_PREFIXES):
        left, power = left / 1_000, power + 1
    return f"{left:,.1f} {_PREFIXES[power - 1]}B"


def number(count: float | None) -> str:
    if count is None or count < 0:
        return DASH
    return f"{count:,.0f}" if float(count).is_integer() or count >= 100 else f"{count:,.1f}"


def counted(count: float | None, unit: str) -> str:
    """Format a count with its unit: `1 file`, `2 files`. The unit is given in the plural. `files not counted` if no
    number was reported.
    """
    if count is None or count < 0:
        return f"{unit} not counted"
    return f"{number(count)} {unit.removesuffix('s') if count == 1 else unit}"


def together(counts: Iterable[float]) -> float:
    """Return the sum; -1, unknown, if a part of it is."""
    parts = list(counts)
    return -1 if any(count < 0 for count in parts) else sum(parts)


def signed(value: float | None) -> str:
    """Format a figure from data, which may be negative."""
    return DASH if value is None else f"{value:,.6g}"


def percent(value: float | None) -> str:
    return DASH if value is None or value < 0 else f"{value:.3g} %"


def ratio(value: float | None) -> str:
    """Format a multiple of the average."""
    return DASH if value is None or value < 0 else f"{value:.1f}×"


def moment(at: datetime | None) -> str:
    """Format a time in UTC, which the foot of every page states."""
    return DASH if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(at: datetime | None) -> str:
    """Format the time of day to the millisecond, where the date is shown next to it."""
    return DASH if at is None else at.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


def between(begin: datetime | None, end: datetime | None) -> int:
    """Return the milliseconds between two times; -1 if one is missing."""
    return -1 if begin is None or end is None else max(0, round((end - begin).total_seconds() * 1000))


def pairs(anything: object) -> str:
    """Format a JSON object in words: `column minutes, min_value 0`; anything else as `value`."""
    if not isinstance(anything, Mapping) or not anything:
        return value(anything)
    return ", ".join(f"{name} {_inner(item)}" for name, item in anything.items())


def _inner(anything: object) -> str:
    if isinstance(anything, Mapping):
        return f"({pairs(anything)})" if anything else "none"
    if isinstance(anything, list):
        return " ".join(value(item) for item in anything[:5]) + (" …" if len(anything) > 5 else "") or "none"
    return value(anything)


def option(setting: object, name: str) -> str:
    """Format the value of an option as users write it: durations are recorded in milliseconds."""
    if setting is None:
        return "None"
    if isinstance(setting, Mapping):
        return ", ".join(f"{inner} {option(inner_value, inner)}" for inner, inner_value in setting.items())
    if name in DURATIONS and isinstance(setting, int) and not isinstance(setting, bool):
        return written(timedelta(milliseconds=setting))
    return value(setting)


def value(anything: object) -> str:
    """Format a value of an option, position or row as JSON; a text stays as it is."""
    if anything is None:
        return "null"
    return anything if isinstance(anything, str) else json.dumps(anything, ensure_ascii=False, default=str)


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


_UNITS = {"duration": duration, "size": size, "number": number}


def figure(count: float | None, unit: str) -> str:
    """Format a figure in its unit: `duration`, `size` or `number`."""
    return _UNITS[unit](count)


#: The functions by their names in templates.
FILTERS: dict[str, Callable[..., str]] = {
    one.__name__: one
    for one in (
        *(duration, age, size, number, counted, figure, signed, percent, ratio, moment, clock, value, pairs, option),
        shorten,
    )
}
