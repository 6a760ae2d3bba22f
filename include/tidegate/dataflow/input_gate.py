"""An operator's input gate: it merges the channels and carries out the decisions of the barrier handler.

There is one channel per upstream source split and one per upstream operator. The gate decides nothing about
checkpoints. It keeps the order inside a channel, lets priority barriers overtake, holds blocked channels back, captures
in-flight data, keeps the timer, and measures the alignment. It queues and captures references, so neither copies any
data. Scheduled and continuous runs use the same gate: a scheduled run puts one barrier into each channel, a continuous
run many.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import assert_never

from tidegate.dataflow.channel import Channel, ChannelName
from tidegate.dataflow.elements import (
    Aborted,
    Aligned,
    Data,
    Ended,
    Exchange,
    InFlight,
    Output,
    Released,
    SnapshotDue,
    milliseconds,
)
from tidegate.ports import Clock, Segment
from tidegate.protocol.barriers.messages import (
    AbortSnapshot,
    Action,
    Announcement,
    Barrier,
    BarrierHandler,
    Block,
    BytesQueued,
    Cancel,
    CancelTimer,
    EndAlignment,
    EndOfData,
    EndOfPartition,
    GateEvent,
    Marker,
    Prioritize,
    SetTimer,
    StartAlignment,
    StartCapture,
    StopCapture,
    StopMode,
    TakeSnapshot,
    Timeout,
    Unblock,
)
from tidegate.protocol.barriers.tracker import MAX_TRACKED


class InputGate:
    """The gate of one operator. Not thread-safe: the driver's own thread feeds it, and drains it no later than
    `timer`."""

    def __init__(self, channels: Sequence[ChannelName], handler: BarrierHandler, clock: Clock) -> None:
        self.channels = tuple(channels)
        self._handler = handler
        self._clock = clock
        self._channels = [Channel(index) for index in range(len(channels))]
        self._urgent: set[int] = set()  # channels with urgent barriers
        self._turn = 0
        self._timer: SetTimer | None = None
        self._released_bytes = 0
        self._started: dict[int, tuple[float, int]] = {}  # checkpoint -> clock and released bytes at its first barrier
        self._unended: dict[int, set[int]] = {}  # checkpoint -> channels where its barrier came before the end of data

    @property
    def timer(self) -> int | None:
        """The time at which the gate must be drained even if nothing arrives, in milliseconds since the epoch."""
        return None if self._timer is None else self._timer.at

    def queued_bytes(self, channel: int) -> int:
        """Return the bytes of data queued in a channel, held back or not."""
        return self._channels[channel].bytes

    def waiting(self) -> list[Data]:
        """Return all queued or captured data, whose files are still needed."""
        queued = [element for channel in self._channels for element in (*channel.queue, *channel.captured)]
        return [element for element in queued if isinstance(element, Segment | Exchange)]

    def offer(self, channel: int, data: Data) -> None:
        """Put data at the end of a channel."""
        self._channels[channel].put(data)

    def signal(self, marker: Marker) -> None:
        """Put a barrier, a cancel marker or an end marker at the end of its channel."""
        channel = self._channels[marker.channel]
        channel.put(marker)
        if channel.urgent:
            self._urgent.add(channel.index)

    def drain(self, max_bytes: int | None = None) -> list[Output]:
        """Take everything that is not held back, one element per channel in turn, and return the outputs in order.

        With `max_bytes`, take a micro-batch: data beyond it stays queued, and a barrier behind that data waits or
        overtakes.
        """
        outputs: list[Output] = []
        released_before = self._released_bytes
        full = max_bytes == 0
        while (following := self._next(full)) is not None:
            outputs += following
            full = max_bytes is not None and self._released_bytes - released_before >= max_bytes
        return outputs

    def _next(self, full: bool) -> list[Output] | None:
        """Take one element, but no data if `full`. Return None when nothing more can be taken."""
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
        return self._step(BytesQueued(held_back)) or None if held_back else None

    def _take_urgent(self, channel: Channel) -> list[Output]:
        barrier = channel.urgent.popleft()
        if not channel.urgent:
            self._urgent.remove(channel.index)
        if not barrier.options.unaligned:
            return self._step(Announcement(replace(barrier, now=self._now())))
        self._note_unended(channel, barrier)
        channel.overtaken = channel.before(barrier)
        outputs = self._step(replace(barrier, now=self._now()))
        channel.overtaken = []
        channel.queue.remove(barrier)
        return outputs

    def _take(self, channel: Channel) -> list[Output]:
        element = channel.take()
        match element:
            case Barrier():
                self._note_unended(channel, element)
                return self._step(replace(element, now=self._now()))
            case EndOfPartition():
                channel.ended = channel.ended or StopMode.DRAIN
                return [*self._end_of(channel), *self._step(replace(element, now=self._now()))]
            case EndOfData():
                channel.ended = element.mode
                return self._end_of(channel)
            case Cancel():
                return self._step(element)
            case Segment() | Exchange():
                self._released_bytes += element.bytes
                return [Released(channel.index, element)]

    @staticmethod
    def _end_of(channel: Channel) -> list[Output]:
        return [Ended(channel.index)] if channel.ended is StopMode.DRAIN else []

    def _note_unended(self, channel: Channel, barrier: Barrier) -> None:
        if channel.ended is None:
            self._unended.setdefault(barrier.checkpoint_id, set()).add(channel.index)
            if len(self._unended) > MAX_TRACKED + 1:  # of checkpoints that were dropped silently
                del self._unended[min(self._unended)]

    def _step(self, event: GateEvent) -> list[Output]:
        return [output for action in self._handler.step(event) for output in self._carry_out(action)]

    def _carry_out(self, action: Action) -> Iterable[Output]:
        match action:
            case Block():
                self._channels[action.channel].blocked = True
            case Unblock():
                self._channels[action.channel].blocked = False
            case StartAlignment():
                self._started[action.checkpoint_id] = self._clock.monotonic(), self._released_bytes
                if len(self._started) > MAX_TRACKED + 1:  # of checkpoints that were dropped silently
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
        now = self._clock.monotonic()
        since, released = self._started.pop(checkpoint_id)
        alignment = round((now - since) * 1000)
        processed = self._released_bytes - released
        captured = self._captured()
        return Aligned(checkpoint_id, since, alignment, processed, captured, self._ended(checkpoint_id, captured))

    def _ended(self, checkpoint_id: int, captured: tuple[InFlight, ...]) -> StopMode | None:
        modes = {channel.ended for channel in self._channels}
        if self._unended.pop(checkpoint_id, None) or None in modes:
            return None
        if captured:  # the state does not include it: the operator ends with the next checkpoint
            return None
        return StopMode.SUSPEND if StopMode.SUSPEND in modes else StopMode.DRAIN

    def _captured(self) -> tuple[InFlight, ...]:
        """Return the captured data and drop it."""
        captured = tuple(InFlight(channel.index, data) for channel in self._channels for data in channel.captured)
        for channel in self._channels:
            channel.capturing, channel.captured = False, []
        return captured

    def _now(self) -> int:
        return milliseconds(self._clock.now())
