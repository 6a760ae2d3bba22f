"""The data in a channel, and the outputs of an input gate.

Data is a reference, never rows: a segment of a source, or files that an upstream operator wrote.
"""

from dataclasses import dataclass
from datetime import datetime

from tidegate.ports import Segment
from tidegate.protocol.barriers.messages import AbortSnapshot, BarrierOptions, StopMode
from tidegate.protocol.facts.records import StateHandle


@dataclass(frozen=True, slots=True)
class Exchange:
    """The output of an upstream step or operator before its barrier: files on checkpoint storage, and its watermark,
    which may advance without rows."""

    handles: tuple[StateHandle, ...]
    watermark: int | None = None

    @property
    def bytes(self) -> int:
        return sum(handle.bytes for handle in self.handles)


Data = Segment | Exchange


def has_rows(data: Data) -> bool:
    """Return whether there are rows to process. A watermark may travel alone."""
    return isinstance(data, Segment) or bool(data.handles)


@dataclass(frozen=True, slots=True)
class Released:
    """Data that the operator must process now, before any later output."""

    channel: int
    data: Data


@dataclass(frozen=True, slots=True)
class SnapshotDue:
    """Take the snapshot before any later output, and send the barrier on with these options. If they are unaligned, the
    `Aligned` that follows holds the data that belongs to the checkpoint in addition to the state."""

    checkpoint_id: int
    options: BarrierOptions
    triggered_at: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """Data before a barrier that the state of an unaligned snapshot does not include. It is also released. After a
    restore it must be put back into its channel, ahead of anything else."""

    channel: int
    data: Data


@dataclass(frozen=True, slots=True)
class Aligned:
    """Every barrier of the checkpoint has arrived. With this and its snapshot the operator's part is complete.

    `first_barrier` is on the gate's clock, in seconds. `alignment` is the time from the first to the last barrier, in
    milliseconds. `processed_bytes` were released between the two (0 with a single channel; protocol.md section 19).
    `ended` is set if the data of every channel ended before its barrier, and the state includes it all. It is the end
    for good only if all channels ended for good.
    """

    checkpoint_id: int
    first_barrier: float
    alignment: int
    processed_bytes: int
    captured: tuple[InFlight, ...] = ()
    ended: StopMode | None = None

    @property
    def persisted_bytes(self) -> int:
        """The size of the captured data. If it is not 0, the checkpoint is unaligned (protocol.md section 19)."""
        return sum(in_flight.data.bytes for in_flight in self.captured)


@dataclass(frozen=True, slots=True)
class Aborted:
    """The checkpoint was aborted at this gate."""

    abort: AbortSnapshot


@dataclass(frozen=True, slots=True)
class Ended:
    """The data of a channel has ended for good. Nothing follows in it."""

    channel: int


Output = Released | SnapshotDue | Aligned | Aborted | Ended


def milliseconds(timestamp: datetime) -> int:
    """Return the milliseconds since the epoch, the unit of time in barriers."""
    return round(timestamp.timestamp() * 1000)
