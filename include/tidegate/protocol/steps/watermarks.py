"""Event time: how far a stream has come in it, its watermark, and what follows from that.

A watermark is in microseconds since 1970, UTC. Rows that it has passed may still come: they are late. An input without
a watermark yet is not known to have come anywhere, and an operator has come as far as the slowest of its inputs.

A row far ahead of the clock is malformed, and no watermark follows it: it would close all windows before it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tidegate.protocol.facts.records import Snapshot

#: The watermark of what has ended: nothing will ever follow.
END_OF_TIME = (1 << 63) - 1

#: In the position of a source's split: the largest event time of what it has read.
EVENT_TIME = "event_time"
#: There too: how many rows of the segment that it has read last are ahead, which is all that are later than that.
AHEAD = "ahead"
#: In the position of an operator's first subtask: by input, its watermark; how many rows came too late; and up to where
#: windows have gone from its state, if they stay there after they have left.
WATERMARKS, LATE, GONE = "watermarks", "late", "gone"


class EventTimes(NamedTuple):
    """What a segment's rows say: the largest event time that is not too far ahead, and how many rows are."""

    largest: int | None
    ahead: int = 0


def lowest(inputs: Iterable[str], known: Mapping[str, int]) -> int | None:
    """The watermark of an operator with these inputs; None while one of them has none. Performs no I/O."""
    found = [known.get(name) for name in inputs]
    there = [watermark for watermark in found if watermark is not None]
    return min(there) if there and len(there) == len(found) else None


def raised(before: int | None, to: int | None) -> int | None:
    """A watermark never goes back. Performs no I/O."""
    return max((each for each in (before, to) if each is not None), default=None)


def gone_by(before: int | None, watermark: int | None, lateness: int) -> int | None:
    """Up to where windows have gone from state, which stay there for so long after they have left. A window that has
    gone never comes back, also if they are allowed to be later from now on. Performs no I/O."""
    if watermark is None or watermark == END_OF_TIME:
        return raised(before, watermark)
    return raised(before, watermark - lateness)


def with_event_time(snapshot: Snapshot, before: Snapshot | None, read: EventTimes | None) -> Snapshot:
    """The snapshot of a source's split that has read rows with these event times, and before that those of `before`."""
    event_time = raised(event_time_of(before), read.largest if read else None)
    said = {} if event_time is None else {EVENT_TIME: event_time}
    said |= {AHEAD: read.ahead} if read and read.ahead else {}
    return replace(snapshot, position={**(snapshot.position or {}), **said}) if said else snapshot


def event_time_of(snapshot: Snapshot | None) -> int | None:
    """The largest event time that a source's split has read."""
    found: int | None = ((snapshot.position if snapshot else None) or {}).get(EVENT_TIME)
    return found


def ahead_of(snapshot: Snapshot | None) -> int:
    """How many rows of the segment that a source's split has read last are ahead."""
    return int(((snapshot.position if snapshot else None) or {}).get(AHEAD, 0))


def with_watermarks(snapshot: Snapshot, watermarks: Mapping[str, int], late: int, gone: int | None = None) -> Snapshot:
    """The snapshot of an operator's first subtask with how far its inputs had come. `gone` unless that follows."""
    if not watermarks and not late:
        return snapshot
    position: dict[str, Any] = {**(snapshot.position or {}), WATERMARKS: dict(watermarks), LATE: late}
    position |= {} if gone is None else {GONE: gone}
    return replace(snapshot, position=position)


def watermarks_of(snapshot: Snapshot | None) -> tuple[dict[str, int], int]:
    """What `with_watermarks` has recorded."""
    position = (snapshot.position if snapshot else None) or {}
    return dict(position.get(WATERMARKS, {})), int(position.get(LATE, 0))


def gone_of(snapshot: Snapshot | None) -> int | None:
    """Up to where windows had gone from state; None of one whose windows go when they leave."""
    found: int | None = ((snapshot.position if snapshot else None) or {}).get(GONE)
    return found


def is_of_operator(position: Mapping[str, Any]) -> bool:
    """Whether a position is an operator's, not that of a source's split."""
    return position.keys() <= {WATERMARKS, LATE, GONE, "in_flight"}


def is_watermark_alone(position: Mapping[str, Any]) -> bool:
    """Whether nothing is lost with an operator that nobody goes on from: a watermark is found again."""
    return position.keys() <= {WATERMARKS, LATE, GONE}
