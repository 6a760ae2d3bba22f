"""Durations as people write them. `pipeline.durations` reads what this writes."""

from datetime import timedelta

_UNITS = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
    ("ms", timedelta(milliseconds=1)),
)


def written(duration: timedelta) -> str:
    """As `30 min` or `1 h 30 min`; what is shorter than a millisecond is left out. Performs no I/O."""
    parts = []
    for unit, size in _UNITS:
        count, duration = divmod(duration, size)
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts) or "0 s"
