"""Barriers: the events at an operator's inputs, the actions that follow, and the interface of the handlers that choose
the actions.

A handler sees the control events of the operator's channels, in the order the gate takes them, and answers with what
the gate must do. It holds no data and no channel, and reads no clock: the gate blocks, captures and keeps the timers.
`options` decides which handler a pipeline gets.

Times are milliseconds since the epoch, on the wall clock that also dates the trigger.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from tidegate.protocol.facts.reasons import FailureReason


class AlignmentType(Enum):
    """How a barrier wants its channels treated (protocol.md section 4, "Options sent")."""

    NONE = auto()  # at least once: nothing is held back
    ALIGNED = auto()  # a channel waits behind its barrier until all barriers are there
    UNALIGNED = auto()  # the barrier overtakes queued data, which becomes part of the snapshot
    FORCED_ALIGNED = auto()  # should be unaligned, but a restore could not put back what this channel carries


@dataclass(frozen=True, slots=True)
class BarrierOptions:
    """What travels with a barrier. An aligned one with a `timeout` may become unaligned that many milliseconds after
    its checkpoint was triggered; with None it never does."""

    alignment: AlignmentType = AlignmentType.ALIGNED
    timeout: int | None = None

    @property
    def unaligned(self) -> bool:
        return self.alignment is AlignmentType.UNALIGNED

    @property
    def times_out_after(self) -> int | None:
        return self.timeout if self.alignment is AlignmentType.ALIGNED else None

    def forced_aligned(self) -> "BarrierOptions":
        """For a channel that cannot carry unaligned barriers (protocol.md section 11.5)."""
        if not self.unaligned and self.times_out_after is None:
            return self
        return replace(self, alignment=AlignmentType.FORCED_ALIGNED)

    def unaligned_capable(self) -> "BarrierOptions":
        """Undo `forced_aligned` before the barrier goes on downstream (protocol.md section 11.5)."""
        if self.alignment is not AlignmentType.FORCED_ALIGNED:
            return self
        return replace(self, alignment=AlignmentType.UNALIGNED if self.timeout is None else AlignmentType.ALIGNED)


ALIGNED = BarrierOptions()
UNALIGNED = BarrierOptions(AlignmentType.UNALIGNED)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Data before it in the channel belongs to the checkpoint, data after it does not.

    `triggered_at` is the checkpoint's; `now` is when the barrier was taken from its channel.
    """

    checkpoint_id: int
    channel: int
    options: BarrierOptions = ALIGNED
    triggered_at: int = 0
    now: int = 0

    def snapshot(self) -> "TakeSnapshot":
        return TakeSnapshot(self.checkpoint_id, self.options, self.triggered_at)

    def as_unaligned(self) -> "Barrier":
        return replace(self, options=replace(self.options, alignment=AlignmentType.UNALIGNED))


@dataclass(frozen=True, slots=True)
class Announcement:
    """A barrier that may time out is in its channel, perhaps behind data. The barrier itself still follows, as it is or
    prioritized."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Cancel:
    """The upstream aborted the checkpoint."""

    checkpoint_id: int
    channel: int


class StopMode(Enum):
    """Why no data follows in a channel."""

    DRAIN = auto()  # there will never be any: what reads the channel finishes with it
    SUSPEND = auto()  # the pipeline stops here, and may go on from here


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No data follows in this channel; a barrier does. Only the gate uses it: it changes nothing about checkpoints."""

    channel: int
    mode: StopMode


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing will follow in this channel."""

    channel: int
    now: int = 0


@dataclass(frozen=True, slots=True)
class Timeout:
    """The time of a `SetTimer` has come."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BytesQueued:
    """How many bytes now wait on the blocked channels, all together."""

    bytes: int


Marker = Barrier | Cancel | EndOfData | EndOfPartition  # what lies in a channel
GateEvent = Barrier | Cancel | EndOfPartition | Announcement | Timeout | BytesQueued


@dataclass(frozen=True, slots=True)
class Block:
    """Hold back the data of this channel, in order."""

    channel: int


@dataclass(frozen=True, slots=True)
class Unblock:
    channel: int


@dataclass(frozen=True, slots=True)
class StartAlignment:
    """The first barrier of a checkpoint is here: start delay ends, alignment begins."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class EndAlignment:
    """The last barrier is here: nothing more is missing from the checkpoint at this gate."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Must be carried out before any later action of the same answer. The options are the checkpoint's final ones at
    this gate and are sent on downstream. If unaligned, captured data follows the snapshot."""

    checkpoint_id: int
    options: BarrierOptions = ALIGNED
    triggered_at: int = 0


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """Decline to the coordinator, abort what was begun, and pass a cancel marker downstream."""

    checkpoint_id: int
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Data not yet processed belongs to the checkpoint too, on every channel until its `StopCapture`."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StopCapture:
    """The channel's barrier or end is here: the data it overtook is the last to be captured. Without a channel, the
    checkpoint was aborted: drop the captured data."""

    checkpoint_id: int
    channel: int | None = None


@dataclass(frozen=True, slots=True)
class Prioritize:
    """Let the barrier announced in this channel overtake what is queued before it, as an unaligned one."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Answer with a `Timeout` at this time. There is one timer: a later `SetTimer` replaces an earlier one."""

    checkpoint_id: int
    at: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    checkpoint_id: int


Action = (
    Block
    | Unblock
    | StartAlignment
    | EndAlignment
    | TakeSnapshot
    | AbortSnapshot
    | StartCapture
    | StopCapture
    | Prioritize
    | SetTimer
    | CancelTimer
)


class BarrierHandler(Protocol):
    """Decides what barriers mean at one operator's inputs (protocol.md section 11). Performs no I/O."""

    def step(self, event: GateEvent) -> list[Action]:
        """Take one control event; returns the actions in the order they must be carried out."""
        ...
