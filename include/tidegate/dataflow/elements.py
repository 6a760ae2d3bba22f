"""What lies in a channel besides barriers, and what an input gate makes of it.

Data is a reference, never rows: a segment of a source, or files that an upstream operator wrote.
"""

from dataclasses import dataclass
from datetime import datetime

from tidegate.ports import Segment
from tidegate.protocol.barriers.messages import AbortSnapshot, BarrierOptions, StopMode
from tidegate.protocol.facts.records import StateHandle


@dataclass(frozen=True, slots=True)
class Exchange:
    """What an upstream step or operator produced before its barrier: files on checkpoint storage, and its watermark. It
    may have come further without a row."""

    handles: tuple[StateHandle, ...]
    watermark: int | None = None

    @property
    def bytes(self) -> int:
        return sum(handle.bytes for handle in self.handles)


Data = Segment | Exchange


def has_rows(data: Data) -> bool:
    """Whether there is anything to process. A watermark may travel alone."""
    return isinstance(data, Segment) or bool(data.handles)


@dataclass(frozen=True, slots=True)
class Released:
    """Data the operator must process now, before any later output."""

    channel: int
    data: Data


@dataclass(frozen=True, slots=True)
class SnapshotDue:
    """Take the snapshot before any later output, and send the barrier on with these options. If they are unaligned, the
    `Aligned` that follows has the data that belongs to the checkpoint beside the state."""

    checkpoint_id: int
    options: BarrierOptions
    triggered_at: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """Data before a barrier that the state of an unaligned snapshot does not include. It is, or was, released as well.
    After a restore it must be put back into its channel, ahead of anything else."""

    channel: int
    data: Data


@dataclass(frozen=True, slots=True)
class Aligned:
    """Every barrier of the checkpoint has arrived. With this and its snapshot the operator's part is complete.

    `first_barrier` is on the gate's clock, in seconds. `alignment` is the time from the first to the last barrier, in
    milliseconds. `processed_bytes` were released between the two (0 with a single channel; protocol.md section 19).
    `ended` is set if the data of every channel ended before its barrier, and the state includes it all. It is the end
    for good only if all say so.
    """

    checkpoint_id: int
    first_barrier: float
    alignment: int
    processed_bytes: int
    captured: tuple[InFlight, ...] = ()
    ended: StopMode | None = None

    @property
    def persisted_bytes(self) -> int:
        """The size of the captured data; more than 0 makes the checkpoint unaligned (protocol.md section 19)."""
        return sum(in_flight.data.bytes for in_flight in self.captured)


@dataclass(frozen=True, slots=True)
class Aborted:
    """The checkpoint was aborted at this gate."""

    abort: AbortSnapshot


@dataclass(frozen=True, slots=True)
class Ended:
    """The data of a channel has ended for good: nothing follows in it."""

    channel: int


Output = Released | SnapshotDue | Aligned | Aborted | Ended


def milliseconds(timestamp: datetime) -> int:
    """Milliseconds since the epoch, as barriers count time."""
    return round(timestamp.timestamp() * 1000)
