"""An operator's input gate: merges its channels and carries out what the barrier handler decides.

One channel per upstream source split and one per upstream operator. The gate decides nothing about checkpoints; it
keeps order inside a channel, lets priority barriers overtake, holds blocked channels back, captures what is in flight,
keeps the timer, and measures the alignment. What it queues and captures are references to data, so both cost bytes, not
copies. Scheduled and continuous runs go through the same gate: the first puts one barrier into each channel, the second
many.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import assert_never

from tidegate.clock import SystemClock
from tidegate.ports import Clock, Segment
from tidegate.protocol.barrier_tracker import MAX_TRACKED
from tidegate.protocol.barriers import (
    AbortSnapshot,
    Action,
    Announcement,
    Barrier,
    BarrierHandler,
    BarrierOptions,
    Block,
    Cancel,
    CancelTimer,
    EndAlignment,
    EndOfData,
    EndOfPartition,
    Event,
    Marker,
    Prioritize,
    Queued,
    SetTimer,
    StartAlignment,
    StartCapture,
    StopCapture,
    StopMode,
    TakeSnapshot,
    Timeout,
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
class SnapshotDue:
    """Take the snapshot before anything that comes later in the answer, and send the barrier on with these options. If
    they are unaligned, the `Aligned` that follows brings the data that belongs to the checkpoint beside the state."""

    checkpoint_id: int
    options: BarrierOptions
    triggered_at: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """Data before a barrier that the state of an unaligned snapshot does not know. It is, or was, released as well; after
    a restore it must be put into its channel again, before anything else."""

    channel: int
    data: Data


@dataclass(frozen=True, slots=True)
class Aligned:
    """Every barrier of the checkpoint has arrived; with this and its snapshot the operator's part is complete.

    `first_barrier` is on the gate's clock (seconds); `alignment` from the first to the last barrier in milliseconds;
    `processed_bytes` what was released between the two (0 with a single channel; protocol.md section 19). `ended`: in every
    channel the data had come to its end before; it is the end for ever only if all say so.
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
    """The checkpoint was given up at this gate."""

    abort: AbortSnapshot


Output = Released | SnapshotDue | Aligned | Aborted


class _Channel:
    """One queue, and the barriers in it that ask for attention before their turn."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.queue: deque[Data | Marker] = deque()
        self.urgent: deque[Barrier] = deque()  # to overtake, or to be announced
        self.bytes = 0  # of the data in the queue
        self.blocked = False
        self.ended: StopMode | None = None  # what was said of the data, once there is no more
        self.capturing = False
        self.captured: list[Data] = []
        self.overtaken: list[Data] = []  # by the barrier that is being looked at

    @property
    def ready(self) -> bool:
        return bool(self.queue) and not self.blocked

    @property
    def leads_with_data(self) -> bool:
        return isinstance(self.queue[0], Segment | Exchange)

    def put(self, element: Data | Marker) -> None:
        self.queue.append(element)
        match element:
            case Barrier():
                if element.options.unaligned or element.options.times_out_after is not None:
                    self.urgent.append(element)
            case Segment() | Exchange():
                self.bytes += element.bytes

    def take(self) -> Data | Marker:
        element = self.queue.popleft()
        if isinstance(element, Segment | Exchange):
            self.bytes -= element.bytes
            if self.capturing:
                self.captured.append(element)
        return element

    def before(self, barrier: Barrier) -> list[Data]:
        ahead = list(self.queue)[: self.queue.index(barrier)]
        return [element for element in ahead if isinstance(element, Segment | Exchange)]

    def prioritize(self, checkpoint_id: int) -> None:
        for place, element in enumerate(self.queue):
            if isinstance(element, Barrier) and element.checkpoint_id == checkpoint_id:
                self.queue[place] = element.as_unaligned()
                self.urgent.appendleft(element.as_unaligned())
                return

    def start_capture(self) -> None:
        self.capturing, self.captured = True, []

    def stop_capture(self) -> None:
        if self.capturing:
            self.captured += self.overtaken
        self.capturing = False


class InputGate:
    """Not thread-safe: the region's own thread feeds and drains it, at the latest when `timer` says so. `clock` counts
    seconds and never goes back; `wall_clock` is the one that dates triggers."""

    def __init__(
        self,
        channels: Sequence[str],
        handler: BarrierHandler,
        clock: Callable[[], float] = monotonic,
        wall_clock: Clock | None = None,
    ) -> None:
        self.channels = tuple(channels)
        self._handler = handler
        self._clock = clock
        self._wall_clock = wall_clock or SystemClock()
        self._channels = [_Channel(index) for index in range(len(channels))]
        self._urgent: set[int] = set()  # channels with urgent barriers
        self._turn = 0
        self._timer: SetTimer | None = None
        self._released_bytes = 0
        self._started: dict[int, tuple[float, int]] = {}  # checkpoint -> clock and released bytes at its first barrier
        self._unended: dict[
            int, set[int]
        ] = {}  # checkpoint -> channels in which its barrier came before the end of data

    @property
    def timer(self) -> int | None:
        """When the gate must be drained even if nothing arrives, in milliseconds since the epoch."""
        return None if self._timer is None else self._timer.at

    def queued_bytes(self, channel: int) -> int:
        """Of data that waits in a channel, held back or not."""
        return self._channels[channel].bytes

    def waiting(self) -> list[Data]:
        """Everything that is queued or captured: what it refers to is still needed."""
        queued = [element for channel in self._channels for element in (*channel.queue, *channel.captured)]
        return [element for element in queued if isinstance(element, Segment | Exchange)]

    def offer(self, channel: int, data: Data) -> None:
        """Put data at the end of a channel."""
        self._channels[channel].put(data)

    def signal(self, marker: Marker) -> None:
        """Put a barrier, a cancel marker, or what says that it is the end, at the end of its channel."""
        channel = self._channels[marker.channel]
        channel.put(marker)
        if channel.urgent:
            self._urgent.add(channel.index)

    def drain(self, max_bytes: int | None = None) -> list[Output]:
        """Take all that is not held back, one element a channel at a time, and say what follows from it, in order.

        With `max_bytes` a micro-batch: data beyond it stays queued, and a barrier behind that data waits or overtakes.
        """
        outputs: list[Output] = []
        released_before = self._released_bytes
        full = max_bytes == 0
        while (following := self._next(full)) is not None:
            outputs += following
            full = max_bytes is not None and self._released_bytes - released_before >= max_bytes
        return outputs

    def _next(self, full: bool) -> list[Output] | None:
        """One thing at a time, no data if `full`; None once nothing can be taken any more."""
        if self._timer is not None and self._timer.at <= self._now():
            timeout, self._timer = Timeout(self._timer.checkpoint_id), None
            return self._step(timeout)
        for index in sorted(self._urgent):
            if not self._channels[index].blocked:
                return self._take_urgent(self._channels[index])
        for offset in range(len(self._channels)):
            channel = self._channels[(self._turn + offset) % len(self._channels)]
            if channel.ready and not (full and channel.leads_with_data):
                self._turn = channel.index + 1
                return self._take(channel)
        if not full:
            self._turn = 0
        held_back = sum(channel.bytes for channel in self._channels if channel.blocked)
        return self._step(Queued(held_back)) or None if held_back else None

    def _take_urgent(self, channel: _Channel) -> list[Output]:
        barrier = channel.urgent.popleft()
        if not channel.urgent:
            self._urgent.remove(channel.index)
        if not barrier.options.unaligned:
            return self._step(Announcement(replace(barrier, now=self._now())))
        self._look_for_end(channel, barrier)
        channel.overtaken = channel.before(barrier)
        outputs = self._step(replace(barrier, now=self._now()))
        channel.overtaken = []
        channel.queue.remove(barrier)
        return outputs

    def _take(self, channel: _Channel) -> list[Output]:
        element = channel.take()
        match element:
            case Barrier():
                self._look_for_end(channel, element)
                return self._step(replace(element, now=self._now()))
            case EndOfPartition():
                channel.ended = channel.ended or StopMode.DRAIN
                return self._step(replace(element, now=self._now()))
            case EndOfData():
                channel.ended = element.mode
                return []
            case Cancel():
                return self._step(element)
            case Segment() | Exchange():
                self._released_bytes += element.bytes
                return [Released(channel.index, element)]

    def _look_for_end(self, channel: _Channel, barrier: Barrier) -> None:
        if channel.ended is None:
            self._unended.setdefault(barrier.checkpoint_id, set()).add(channel.index)
            if len(self._unended) > MAX_TRACKED + 1:  # of checkpoints that were dropped without a word
                del self._unended[min(self._unended)]

    def _step(self, event: Event) -> list[Output]:
        return [output for action in self._handler.step(event) for output in self._carry_out(action)]

    def _carry_out(self, action: Action) -> Iterable[Output]:
        match action:
            case Block():
                self._channels[action.channel].blocked = True
            case Unblock():
                self._channels[action.channel].blocked = False
            case StartAlignment():
                self._started[action.checkpoint_id] = self._clock(), self._released_bytes
                if len(self._started) > MAX_TRACKED + 1:  # of checkpoints that were dropped without a word
                    del self._started[min(self._started)]
            case EndAlignment():
                yield self._aligned(action.checkpoint_id)
            case TakeSnapshot():
                yield SnapshotDue(action.checkpoint_id, action.options, action.triggered_at)
            case AbortSnapshot():
                self._started.pop(action.checkpoint_id, None)
                self._unended.pop(action.checkpoint_id, None)
                yield Aborted(action)
            case StartCapture():
                for channel in self._channels:
                    channel.start_capture()
            case StopCapture():
                if action.channel is None:
                    self._captured()
                else:
                    self._channels[action.channel].stop_capture()
            case Prioritize():
                self._channels[action.channel].prioritize(action.checkpoint_id)
                self._urgent.add(action.channel)
            case SetTimer():
                self._timer = action
            case CancelTimer():
                self._timer = None
            case _:
                assert_never(action)

    def _aligned(self, checkpoint_id: int) -> Aligned:
        now = self._clock()
        since, released = self._started.pop(checkpoint_id)
        alignment = round((now - since) * 1000)
        processed = self._released_bytes - released
        return Aligned(checkpoint_id, since, alignment, processed, self._captured(), self._ended(checkpoint_id))

    def _ended(self, checkpoint_id: int) -> StopMode | None:
        modes = {channel.ended for channel in self._channels}
        if self._unended.pop(checkpoint_id, None) or None in modes:
            return None
        return StopMode.SUSPEND if StopMode.SUSPEND in modes else StopMode.DRAIN

    def _captured(self) -> tuple[InFlight, ...]:
        """What was captured, which is kept no longer."""
        captured = tuple(InFlight(channel.index, data) for channel in self._channels for data in channel.captured)
        for channel in self._channels:
            channel.capturing, channel.captured = False, []
        return captured

    def _now(self) -> int:
        return milliseconds(self._wall_clock.now())


def milliseconds(timestamp: datetime) -> int:
    """Since the epoch, as barriers count time."""
    return round(timestamp.timestamp() * 1000)
