"""protocol.md sections 11.4 and 11.5 against a slow, obviously right model, over any stream of events."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.protocol.barriers.messages import (
    ALIGNED,
    UNALIGNED,
    AbortSnapshot,
    AlignmentType,
    Announcement,
    Barrier,
    BarrierOptions,
    Block,
    Cancel,
    CancelTimer,
    EndAlignment,
    EndOfPartition,
    Prioritize,
    SetTimer,
    StartCapture,
    StopCapture,
    TakeSnapshot,
    Timeout,
    Unblock,
)
from tidegate.protocol.barriers.unaligned import UnalignedBarrierHandler

TIMED = BarrierOptions(AlignmentType.ALIGNED, timeout=100)
SWITCHED = BarrierOptions(AlignmentType.UNALIGNED, timeout=100)


class Model:
    """Keeps what happened since the current checkpoint began, and works everything out from that list each time."""

    def __init__(self, channels, finished):
        self.channels, self.finished = channels, finished
        self.current, self.ended = -1, True
        self.closed, self.waited_for, self.since = set(), set(), []

    def told(self, event):
        """Snapshots and aborts, in order."""
        out = []
        barrier = event.barrier if isinstance(event, Announcement) else event
        if isinstance(barrier, Barrier) and barrier.checkpoint_id > self.current:
            out += [] if self.ended else [("abort", self.current)]
            self.current, self.ended, self.since = barrier.checkpoint_id, False, []
            self.waited_for = set(range(self.channels)) - self.closed
            self.options, self.due = barrier.options, barrier.triggered_at + (barrier.options.times_out_after or 0)
        match event:
            case Cancel(checkpoint_id=i):
                if i > self.current or (i == self.current and not self.ended):
                    self.current, self.ended = i, True
                    out.append(("abort", i))
                return out
            case EndOfPartition(channel=c):
                self.closed.add(c)
                if not self.ended and not self.finished:
                    self.ended = True
                    return [("abort", self.current)]
            case Timeout(checkpoint_id=i):
                if i != self.current:
                    return []
            case _:
                if barrier.checkpoint_id < self.current:
                    return []
        if self.ended:
            return out
        taken = self.taken()
        self.since.append(event)
        if not taken and self.taken():
            out.append(("take", self.current, self.taken()))
        self.ended = self.waited_for <= self.heard_from()
        return out

    def heard_from(self, events=None):
        events = self.since if events is None else events
        return {e.channel for e in events if isinstance(e, Barrier | EndOfPartition)}

    def is_unaligned(self):
        """Told so by a barrier, by the timer, or by an event that came late and was not the last one missing."""
        timed = self.options.times_out_after is not None
        return any(
            (isinstance(event, Barrier) and event.options.unaligned)
            or isinstance(event, Timeout)
            or (
                isinstance(event, Barrier | EndOfPartition)
                and timed
                and event.now > self.due
                and not self.waited_for <= self.heard_from(self.since[: place + 1])
            )
            for place, event in enumerate(self.since)
        )

    def taken(self):
        """How the snapshot was taken, if it was: at the first barrier of an unaligned one,
        at the last of an aligned."""
        if self.is_unaligned() and self.heard_from():
            return "unaligned"
        return "aligned" if self.waited_for <= self.heard_from() else None

    def capturing(self):
        pending = not self.ended and self.taken() == "unaligned"
        return set(range(self.channels)) - self.heard_from() if pending else set()

    def blocked(self):
        if self.ended or self.channels == 1:
            return set()
        aligned = {e.channel for e in self.since if isinstance(e, Barrier) and not e.options.unaligned}
        return aligned - self.closed

    def timer(self):
        timed = not self.ended and self.options.times_out_after is not None and not self.is_unaligned()
        return self.current if timed else None

    def announced(self):
        """Channels whose barrier still waits behind data."""
        announced = {e.barrier.channel for e in self.since if isinstance(e, Announcement)}
        return set() if self.ended else announced - self.heard_from()


KINDS = st.sampled_from([ALIGNED, UNALIGNED, TIMED])


@st.composite
def streams(draw):
    """Events as channels can really bring them: ids and time only grow, what was announced comes,
    nothing after the end."""
    channels = draw(st.integers(1, 4))
    kinds = [draw(KINDS) for _ in range(6)]
    oldest, announced, closed, events, now = dict.fromkeys(range(channels), 0), {}, set(), [], 0
    for _ in range(draw(st.integers(0, 30))):
        now += draw(st.sampled_from([0, 0, 40]))
        channel = draw(st.sampled_from([c for c in range(channels) if c not in closed and oldest[c] < 6] or [None]))
        kind = draw(st.sampled_from("bbbbaaecttu"))
        if kind == "t":
            events.append(Timeout(draw(st.integers(0, 4))))
            continue
        if channel is None:
            break
        if kind == "e" and channel not in announced:
            closed.add(channel)
            events.append(EndOfPartition(channel, now))
            continue
        id_ = draw(st.integers(oldest[channel], min(oldest[channel] + 1, 5)))
        id_ = min(id_, announced.get(channel, id_))
        barrier = Barrier(id_, channel, kinds[id_], triggered_at=0, now=now)
        if kind == "a":
            if kinds[id_] is TIMED and channel not in announced:
                announced[channel] = id_
                events.append(Announcement(barrier))
            continue
        oldest[channel] = id_ + 1
        if kind == "c" and announced.get(channel) != id_:
            events.append(Cancel(id_, channel))
            continue
        if announced.get(channel) == id_:
            del announced[channel]
        events.append(replace(barrier, options=SWITCHED) if kind == "u" and kinds[id_] is TIMED else barrier)
    return channels, events


@settings(deadline=None)
@given(streams(), st.booleans())
def test_everything_a_gate_can_see_is_as_the_model_says(stream, finished):
    channels, events = stream
    handler, model = UnalignedBarrierHandler(channels, finished), Model(channels, finished)
    blocked, capturing, prioritized, timer = set(), set(), set(), None
    for event in events:
        where = event.barrier if isinstance(event, Announcement) else event
        if not isinstance(event, Timeout) and where.channel in blocked:
            continue  # the gate would not take it now
        told = []
        for action in handler.step(event):
            match action:
                case Block(channel):
                    blocked.add(channel)
                case Unblock(channel):
                    blocked.remove(channel)
                case StartCapture(checkpoint_id):
                    assert checkpoint_id == model.current or checkpoint_id == where.checkpoint_id
                    capturing = set(range(channels))
                case StopCapture(_, channel):
                    capturing = set() if channel is None else capturing - {channel}
                case EndAlignment():
                    capturing = set()
                case Prioritize(_, channel):
                    assert channel not in prioritized
                    prioritized.add(channel)
                case SetTimer(checkpoint_id, at):
                    assert at >= where.now
                    timer = checkpoint_id
                case CancelTimer(checkpoint_id):
                    assert timer == checkpoint_id
                    timer = None
                case TakeSnapshot(checkpoint_id, options):
                    told.append(("take", checkpoint_id, "unaligned" if options.unaligned else "aligned"))
                case AbortSnapshot(checkpoint_id, _):
                    told.append(("abort", checkpoint_id))
                    prioritized = set()
        if isinstance(event, Timeout) and event.checkpoint_id == timer:
            timer = None
        if isinstance(event, Barrier) and event.checkpoint_id == model.current:
            prioritized.discard(event.channel)
        assert told == model.told(event)
        assert blocked == model.blocked()
        assert capturing == model.capturing()
        assert timer == model.timer()
        if model.ended:
            prioritized = set()
        elif model.is_unaligned():
            assert prioritized == model.announced()
