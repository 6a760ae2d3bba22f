"""An operator's input gate: merges its channels and carries out what the barrier handler decides.

One channel per upstream source split and one per upstream operator. The gate decides nothing about checkpoints; it
keeps order inside a channel, holds blocked channels back, and measures the alignment. Scheduled and continuous runs
go through the same gate: the first puts one barrier into each channel, the second many.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import assert_never

from tidegate.ports import Segment
from tidegate.protocol.barriers import (
    AbortSnapshot,
    AlignedBarrierHandler,
    Barrier,
    Block,
    Cancel,
    EndOfPartition,
    Event,
    StartAlignment,
    TakeSnapshot,
    Unblock,
)
from tidegate.protocol.records import StateHandle


@dataclass(frozen=True, slots=True)
class Exchange:
    """What an upstream operator produced before its barrier: files on checkpoint storage, one or none a subtask."""

    handles: tuple[StateHandle, ...]

    @property
    def bytes(self) -> int:
        return sum(handle.bytes for handle in self.handles)


Data = Segment | Exchange


@dataclass(frozen=True, slots=True)
class Released:
    """Data the operator must process now, before anything that comes later in the answer."""

    channel: int
    data: Data


@dataclass(frozen=True, slots=True)
class Aligned:
    """Every barrier of the checkpoint has arrived: process what was released, then take the snapshot.

    `first_barrier` is on the gate's clock (seconds); `alignment` from the first to the last barrier in milliseconds;
    `processed_bytes` what was released between the two (0 with a single channel; protocol.md section 19).
    """

    checkpoint_id: int
    first_barrier: float
    alignment: int
    processed_bytes: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """The checkpoint was given up at this gate."""

    abort: AbortSnapshot


Output = Released | Aligned | Aborted


class InputGate:
    """Not thread-safe: the region's own thread feeds and drains it. `clock` counts seconds and never goes back."""

    def __init__(self, channels: Sequence[str], clock: Callable[[], float] = monotonic) -> None:
        self.channels = tuple(channels)
        self._clock = clock
        self._queues: list[deque[Data | Event]] = [deque() for _ in channels]
        self._blocked: set[int] = set()
        self._handler = AlignedBarrierHandler(len(channels))
        self._aligning_since: float | None = None
        self._bytes_while_aligning = 0

    def offer(self, channel: int, data: Data) -> None:
        """Put data at the end of a channel."""
        self._queues[channel].append(data)

    def signal(self, event: Event) -> None:
        """Put a barrier, a cancel marker or the end at the end of its channel."""
        self._queues[event.channel].append(event)

    def drain(self) -> list[Output]:
        """Take all that is not held back, one element a channel at a time, and say what follows from it, in order."""
        outputs: list[Output] = []
        while ready := [c for c, queue in enumerate(self._queues) if queue and c not in self._blocked]:
            for channel in ready:
                if channel not in self._blocked:
                    outputs += self._take(channel, self._queues[channel].popleft())
        return outputs

    def _take(self, channel: int, element: Data | Event) -> list[Output]:
        match element:
            case Barrier() | Cancel() | EndOfPartition():
                return self._step(element)
            case Segment() | Exchange():
                if self._aligning_since is not None:
                    self._bytes_while_aligning += element.bytes
                return [Released(channel, element)]

    def _step(self, event: Event) -> list[Output]:
        outputs: list[Output] = []
        for action in self._handler.step(event):
            match action:
                case Block():
                    self._blocked.add(action.channel)
                case Unblock():
                    self._blocked.discard(action.channel)
                case StartAlignment():
                    self._aligning_since, self._bytes_while_aligning = self._clock(), 0
                case TakeSnapshot():
                    outputs.append(self._aligned(action.checkpoint_id))
                case AbortSnapshot():
                    self._aligning_since = None
                    outputs.append(Aborted(action))
                case _:
                    assert_never(action)
        return outputs

    def _aligned(self, checkpoint_id: int) -> Aligned:
        now = self._clock()
        since = now if self._aligning_since is None else self._aligning_since
        self._aligning_since = None
        return Aligned(checkpoint_id, since, round((now - since) * 1000), self._bytes_while_aligning)
