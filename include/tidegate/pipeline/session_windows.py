"""Session windows, which end after a gap in the events of a key. Declarations, without Spark."""

from dataclasses import dataclass
from datetime import timedelta

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration, written

_LONGEST = timedelta(days=100 * 365)


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Sessions. Each row opens one that lasts for `gap`; those of one key that overlap or touch merge. Created by
    `session_window`."""

    column: str
    gap: timedelta

    @property
    def gap_micros(self) -> int:
        return self.gap // timedelta(microseconds=1)

    @property
    def overlapping(self) -> int:
        """One: a row is in one session."""
        return 1

    def has_end_in(self, after: int | None, until: int | None) -> bool:
        """Return whether a session may end between the two watermarks. Sessions may end at any time."""
        return until is not None and (after is None or until > after)

    def __str__(self) -> str:
        return f"sessions of {self.column!r} with a gap of {written(self.gap)}"


def session_window(column: str, gap: str | timedelta) -> SessionWindow:
    """Divide the rows of each key into sessions for `KeyedStream.aggregate`. A gap without rows ends a session.

    With a gap of 30 minutes, a row at 10:00 opens a session from 10:00 to 10:30. Sessions of one key that overlap or
    touch merge.

    Args:
        column: The column with the event time.
        gap: The time from its last row to the end of a session, such as `"30 min"`.

    Returns:
        The windows.

    Raises:
        PipelineDefinitionError: If the gap cannot be read, is not positive, or is longer than 100 years.

    Example:
        ```python
        from tidegate import session_window

        session_window("at", gap="30 min")
        ```
    """
    length = duration(gap)
    if not timedelta(0) < length <= _LONGEST:
        raise PipelineDefinitionError(
            f"session_window({column!r}, …) has gap={gap!r}. A gap must be longer than 0 s, and 100 years at most."
        )
    return SessionWindow(column, length)
