"""How figures are written on pages, in one place: durations, sizes, ages, counts and moments. Pure.

-1 means that nothing was reported, None that there is no such thing; both are shown as a dash.
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
    """As `812 ms`, `4.2 s`, `3 min 05 s`, `2 h 10 min`, `5 d 3 h`."""
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
    """How long ago, in the largest unit that fits: `12 s`, `3 min`, `5 h`, `8 d`."""
    if milliseconds is None or milliseconds < 0:
        return DASH
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if milliseconds >= unit:
            return f"{int(milliseconds // unit)} {name}"
    return f"{int(milliseconds // _SECOND)} s"


def size(count: float | None) -> str:
    """Bytes in decimal units, as the commands show them."""
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
    """`1 file`, `2 files`; the unit is given for several. `files not counted` if nothing was reported."""
    if count is None or count < 0:
        return f"{unit} not counted"
    return f"{number(count)} {unit.removesuffix('s') if count == 1 else unit}"


def together(counts: Iterable[float]) -> float:
    """A sum; unknown, -1, if a part of it is."""
    known = list(counts)
    return -1 if any(count < 0 for count in known) else sum(known)


def signed(value: float | None) -> str:
    """A figure from data, which may be negative."""
    return DASH if value is None else f"{value:,.6g}"


def percent(value: float | None) -> str:
    return DASH if value is None or value < 0 else f"{value:.3g} %"


def ratio(value: float | None) -> str:
    """How many times the average."""
    return DASH if value is None or value < 0 else f"{value:.1f}×"


def moment(at: datetime | None) -> str:
    """In UTC, as every page says at its foot."""
    return DASH if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(at: datetime | None) -> str:
    """The time alone, to the millisecond, where the day is said beside it."""
    return DASH if at is None else at.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]


def between(begin: datetime | None, end: datetime | None) -> int:
    """Milliseconds; -1 if one is missing."""
    return -1 if begin is None or end is None else max(0, round((end - begin).total_seconds() * 1000))


def pairs(anything: object) -> str:
    """What an object of JSON says, in words: `column minutes, min_value 0`; anything else as `value`."""
    if not isinstance(anything, Mapping) or not anything:
        return value(anything)
    return ", ".join(f"{name} {_inner(each)}" for name, each in anything.items())


def _inner(anything: object) -> str:
    if isinstance(anything, Mapping):
        return f"({pairs(anything)})" if anything else "none"
    if isinstance(anything, list):
        return " ".join(value(each) for each in anything[:5]) + (" …" if len(anything) > 5 else "") or "none"
    return value(anything)


def option(setting: object, name: str) -> str:
    """The value of an option as people write it: durations are recorded in milliseconds."""
    if setting is None:
        return "None"
    if isinstance(setting, Mapping):
        return ", ".join(f"{inner} {option(each, inner)}" for inner, each in setting.items())
    if name in DURATIONS and isinstance(setting, int) and not isinstance(setting, bool):
        return written(timedelta(milliseconds=setting))
    return value(setting)


def value(anything: object) -> str:
    """A value of an option, position or row, as JSON; a text as it is."""
    if anything is None:
        return "null"
    return anything if isinstance(anything, str) else json.dumps(anything, ensure_ascii=False, default=str)


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


_UNITS = {"duration": duration, "size": size, "number": number}


def figure(count: float | None, unit: str) -> str:
    """A figure in its unit: `duration`, `size` or `number`."""
    return _UNITS[unit](count)


#: By the names that templates use.
FILTERS: dict[str, Callable[..., str]] = {
    one.__name__: one
    for one in (
        *(duration, age, size, number, counted, figure, signed, percent, ratio, moment, clock, value, pairs, option),
        shorten,
    )
}
