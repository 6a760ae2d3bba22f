"""Barriers: the events at an operator's inputs, the actions that follow, and the interface of the handlers that choose
the actions.

A handler is given the control events of the operator's channels, in the order in which the gate takes them, and returns
the gate's actions. It holds no data and no channel, and reads no clock. The gate blocks, captures and keeps the timers.
`options` chooses the handler of a pipeline.

Times are milliseconds since the epoch, on the wall clock that also dates the trigger.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Protocol

from tidegate.protocol.facts.reasons import FailureReason


class AlignmentType(Enum):
    """The treatment of channels at a barrier (protocol.md section 4, "Options sent")."""

    NONE = auto()  # at least once: nothing is held back
    ALIGNED = auto()  # a channel waits behind its barrier until all barriers have arrived
    UNALIGNED = auto()  # the barrier overtakes queued data, which becomes part of the snapshot
    FORCED_ALIGNED = auto()  # should be unaligned, but a restore could not put back the data of this channel


@dataclass(frozen=True, slots=True)
class BarrierOptions:
    """The options of a barrier. An aligned one with a `timeout` may become unaligned that many milliseconds after its
    checkpoint was triggered. With None it never does."""

    alignment: AlignmentType = AlignmentType.ALIGNED
    timeout: int | None = None

    @property
    def unaligned(self) -> bool:
        return self.alignment is AlignmentType.UNALIGNED

    @property
    def times_out_after(self) -> int | None:
        return self.timeout if self.alignment is AlignmentType.ALIGNED else None

    def forced_aligned(self) -> "BarrierOptions":
        """Return the options for a channel that cannot carry unaligned barriers (protocol.md section 11.5)."""
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
    """The marker of a checkpoint in a channel. Data before it belongs to the checkpoint, data after it does not.

    The checkpoint was triggered at `triggered_at`, and the barrier was taken from its channel at `now`.
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
    """A barrier that may time out has reached its channel, perhaps behind data. The barrier itself still follows,
    unchanged or prioritized."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Cancel:
    """The upstream aborted the checkpoint."""

    checkpoint_id: int
    channel: int


class StopMode(Enum):
    """The reason why no data follows in a channel."""

    DRAIN = auto()  # none will ever follow: the reader of the channel finishes with it
    SUSPEND = auto()  # the pipeline stops here, and may go on from here


@dataclass(frozen=True, slots=True)
class EndOfData:
    """No data follows in this channel, but a barrier does. Only the gate uses it: it changes no checkpoint."""

    channel: int
    mode: StopMode


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """Nothing will follow in this channel."""

    channel: int
    now: int = 0


@dataclass(frozen=True, slots=True)
class Timeout:
    """The time of a `SetTimer` has passed."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class BytesQueued:
    """The number of bytes that now wait on all blocked channels together."""

    bytes: int


Marker = Barrier | Cancel | EndOfData | EndOfPartition  # the control messages in a channel
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
    """The first barrier of a checkpoint has arrived: the start delay ends, and alignment begins."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class EndAlignment:
    """The last barrier has arrived: the checkpoint is complete at this gate."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Take the snapshot before any later action of the same answer. The options are the checkpoint's final ones at this
    gate and are sent on downstream. If it is unaligned, captured data follows the snapshot."""

    checkpoint_id: int
    options: BarrierOptions = ALIGNED
    triggered_at: int = 0


@dataclass(frozen=True, slots=True)
class AbortSnapshot:
    """Decline to the coordinator, abort the snapshot, and pass a cancel marker downstream."""

    checkpoint_id: int
    reason: FailureReason


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Capture data not yet processed, on every channel until its `StopCapture`: it belongs to the checkpoint too."""

    checkpoint_id: int


@dataclass(frozen=True, slots=True)
class StopCapture:
    """Stop capturing a channel whose barrier or end has arrived, after the data that it overtook. Without a channel,
    the checkpoint was aborted: drop the captured data."""

    checkpoint_id: int
    channel: int | None = None


@dataclass(frozen=True, slots=True)
class Prioritize:
    """Let the barrier announced in this channel overtake the data queued before it, as an unaligned one."""

    checkpoint_id: int
    channel: int


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send a `Timeout` at this time. There is one timer: a later `SetTimer` replaces an earlier one."""

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
    """Decides on the actions for barriers at one operator's inputs (protocol.md section 11). Performs no I/O."""

    def step(self, event: GateEvent) -> list[Action]:
        """Take one control event, and return the actions in the order in which they must be carried out."""
        ...
