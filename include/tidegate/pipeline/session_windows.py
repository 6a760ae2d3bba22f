"""Sessions: windows that a gap in the events of a key ends. Declarations, without Spark."""

from dataclasses import dataclass
from datetime import timedelta

from tidegate.protocol.facts.errors import PipelineDefinitionError
from tidegate.protocol.text.durations import duration, written

_LONGEST = timedelta(days=100 * 365)


@dataclass(frozen=True, slots=True)
class SessionWindow:
    """Each row is a session that lasts for `gap`. Those of one key that overlap or touch are one. Made by
    `session_window`."""

    column: str
    gap: timedelta

    @property
    def gap_micros(self) -> int:
        return self.gap // timedelta(microseconds=1)

    @property
    def overlapping(self) -> int:
        """A row is in one session."""
        return 1

    def has_end_in(self, after: int | None, until: int | None) -> bool:
        """Sessions may end at any time."""
        return until is not None and (after is None or until > after)

    def __str__(self) -> str:
        return f"sessions of {self.column!r} with a gap of {written(self.gap)}"


def session_window(column: str, gap: str | timedelta) -> SessionWindow:
    """Divide the rows of each key into sessions for `KeyedStream.aggregate`: rows that follow one another within a gap.

    A row at 10:00 opens a session from 10:00 to 10:30 if the gap is 30 minutes. Sessions of one key that overlap or
    touch become one.

    Args:
        column: The column with the event time.
        gap: How long after its last row a session ends, such as `"30 min"`.

    Returns:
        The windows.

    Raises:
        PipelineDefinitionError: If the gap cannot be read, or is not longer than nothing.

    Example:
        ```python
        from tidegate import session_window

        session_window("at", gap="30 min")
        ```
    """
    lasting = duration(gap)
    if not timedelta(0) < lasting <= _LONGEST:
        raise PipelineDefinitionError(
            f"session_window({column!r}, …) has gap={gap!r}. A gap is longer than nothing, and 100 years at most."
        )
    return SessionWindow(column, lasting)
