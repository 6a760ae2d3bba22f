"""Event time and watermarks: the progress of a stream in event time, and its consequences.

A watermark is in microseconds since 1970, UTC. Rows that arrive behind it are late. An input without a watermark has no
known progress yet. The watermark of an operator is that of its slowest input.

A row far ahead of the clock is malformed, and does not raise the watermark: it would close all windows before it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tidegate.protocol.facts.records import Snapshot

#: The watermark of an input that has ended: nothing will ever follow.
END_OF_TIME = (1 << 63) - 1

#: In the position of a source's split: the largest event time of the rows read.
EVENT_TIME = "event_time"
#: There too: the number of rows ahead in the segment that it has read last, which are all rows later than that.
AHEAD = "ahead"
#: In the position of an operator's first subtask: the watermark of each input; the number of rows that came too late;
#: and the time up to which windows are removed from its state, if they stay there after they were emitted.
WATERMARKS, LATE, GONE = "watermarks", "late", "gone"


class EventTimes(NamedTuple):
    """The event times of a segment: the largest that is not too far ahead, and the number of rows that are."""

    largest: int | None
    ahead: int = 0


def lowest(inputs: Iterable[str], known: Mapping[str, int]) -> int | None:
    """Return the watermark of an operator with these inputs; None while one of them has none. Performs no I/O."""
    watermarks = [known.get(name) for name in inputs]
    present = [watermark for watermark in watermarks if watermark is not None]
    return min(present) if present and len(present) == len(watermarks) else None


def raised(before: int | None, to: int | None) -> int | None:
    """Raise a watermark, which never goes back. Performs no I/O."""
    return max((each for each in (before, to) if each is not None), default=None)


def gone_by(before: int | None, watermark: int | None, lateness: int) -> int | None:
    """Return the time up to which windows are removed from state, where they stay for the `lateness` after they were
    emitted. A removed window never comes back, even if the lateness grows. Performs no I/O."""
    if watermark is None or watermark == END_OF_TIME:
        return raised(before, watermark)
    return raised(before, watermark - lateness)


def with_event_time(snapshot: Snapshot, before: Snapshot | None, read: EventTimes | None) -> Snapshot:
    """Record in a split's snapshot the event times of the rows that it has read, after those of `before`."""
    event_time = raised(event_time_of(before), read.largest if read else None)
    times = {} if event_time is None else {EVENT_TIME: event_time}
    times |= {AHEAD: read.ahead} if read and read.ahead else {}
    return replace(snapshot, position={**(snapshot.position or {}), **times}) if times else snapshot


def event_time_of(snapshot: Snapshot | None) -> int | None:
    """Return the largest event time that a source's split has read."""
    event_time: int | None = ((snapshot.position if snapshot else None) or {}).get(EVENT_TIME)
    return event_time


def ahead_of(snapshot: Snapshot | None) -> int:
    """Return the number of rows ahead in the segment that a source's split has read last."""
    return int(((snapshot.position if snapshot else None) or {}).get(AHEAD, 0))


def with_watermarks(snapshot: Snapshot, watermarks: Mapping[str, int], late: int, gone: int | None = None) -> Snapshot:
    """Record the watermarks of an operator's inputs in the snapshot of its first subtask. Give `gone` only if it does
    not follow from them."""
    if not watermarks and not late:
        return snapshot
    position: dict[str, Any] = {**(snapshot.position or {}), WATERMARKS: dict(watermarks), LATE: late}
    position |= {} if gone is None else {GONE: gone}
    return replace(snapshot, position=position)


def watermarks_of(snapshot: Snapshot | None) -> tuple[dict[str, int], int]:
    """Return the watermarks and the number of late rows that `with_watermarks` has recorded."""
    position = (snapshot.position if snapshot else None) or {}
    return dict(position.get(WATERMARKS, {})), int(position.get(LATE, 0))


def gone_of(snapshot: Snapshot | None) -> int | None:
    """Return the time up to which windows were removed from state; None for an operator that removes its windows when
    it emits them."""
    gone: int | None = ((snapshot.position if snapshot else None) or {}).get(GONE)
    return gone


def is_of_operator(position: Mapping[str, Any]) -> bool:
    """Whether a position belongs to an operator, and not to a source's split."""
    return position.keys() <= {WATERMARKS, LATE, GONE, "in_flight"}


def is_watermark_alone(position: Mapping[str, Any]) -> bool:
    """Whether a position holds nothing but watermarks, so that nothing is lost with its operator: watermarks are
    determined again."""
    return position.keys() <= {WATERMARKS, LATE, GONE}
