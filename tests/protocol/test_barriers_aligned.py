"""protocol.md section 11.1, row by row, the limit of section 11.2, and both against a slow, obviously right model."""

from cases import for_each
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.protocol.barriers.aligned import AlignedBarrierHandler
from tidegate.protocol.barriers.messages import (
    AbortSnapshot,
    Announcement,
    Barrier,
    Block,
    BytesQueued,
    Cancel,
    EndAlignment,
    EndOfPartition,
    StartAlignment,
    TakeSnapshot,
    Timeout,
    Unblock,
)
from tidegate.protocol.facts.reasons import FailureReason

SUBSUMED = FailureReason.DECLINED_SUBSUMED
CANCELLED = FailureReason.DECLINED_ON_CANCELLATION_BARRIER
ENDED = FailureReason.DECLINED_INPUT_END_OF_STREAM
LIMIT = FailureReason.ALIGNMENT_LIMIT_EXCEEDED


def taken(checkpoint_id):
    return [EndAlignment(checkpoint_id), TakeSnapshot(checkpoint_id)]


# Each case: channels, the events in order, and the answer to each.
SECTION_11_1 = {
    "barrier, i < cur: obsolete": (2, [
        (Barrier(2, 0), [StartAlignment(2), Block(0)]),
        (Barrier(1, 1), []),
    ]),
    "barrier, i == cur and completed: obsolete": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Barrier(1, 1), [Block(1), *taken(1), Unblock(0), Unblock(1)]),
        (Barrier(1, 0), []),
    ]),
    "barrier, obsolete, on a blocked channel: unblocks it": (3, [
        (Barrier(2, 0), [StartAlignment(2), Block(0)]),
        (Barrier(1, 0), [Unblock(0)]),
    ]),
    "barrier, i > cur and pending: cur is subsumed, i begins": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Barrier(2, 1), [Unblock(0), AbortSnapshot(1, SUBSUMED), StartAlignment(2), Block(1)]),
        (Barrier(2, 0), [Block(0), *taken(2), Unblock(0), Unblock(1)]),
    ]),
    "barrier, i > cur: the target is what is open now": (3, [
        (EndOfPartition(2), []),
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Barrier(1, 1), [Block(1), *taken(1), Unblock(0), Unblock(1)]),
    ]),
    "barrier: blocks, and only the first starts the alignment": (3, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Barrier(1, 2), [Block(2)]),
    ]),
    "barrier, the last: end, snapshot, then unblock all": (3, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Barrier(1, 2), [Block(2)]),
        (Barrier(1, 1), [Block(1), *taken(1), Unblock(0), Unblock(1), Unblock(2)]),
    ]),
    "barrier, target 1 of two channels: start and end at once": (2, [
        (EndOfPartition(0), []),
        (Barrier(1, 1), [StartAlignment(1), Block(1), *taken(1), Unblock(1)]),
    ]),
    "barrier repeated on a channel: counts once": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Barrier(1, 0), []),
    ]),
    "cancel, i == cur with aligned channels: aborted, later barriers swallowed": (3, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Cancel(1, 1), [Unblock(0), AbortSnapshot(1, CANCELLED)]),
        (Barrier(1, 2), []),
        (Barrier(2, 2), [StartAlignment(2), Block(2)]),
    ]),
    "cancel, i > cur, nothing pending: aborted, its barriers swallowed": (2, [
        (Cancel(1, 1), [AbortSnapshot(1, CANCELLED)]),
        (Barrier(1, 0), []),
    ]),
    "cancel, i > cur, an older one aligning: told for the newer only": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Cancel(2, 1), [Unblock(0), AbortSnapshot(2, CANCELLED)]),
        (Barrier(2, 0), []),
    ]),
    "cancel, older: ignored": (2, [
        (Barrier(3, 0), [StartAlignment(3), Block(0)]),
        (Cancel(2, 1), []),
    ]),
    "cancel, completed: ignored": (1, [
        (Barrier(3, 0), [StartAlignment(3), *taken(3)]),
        (Cancel(3, 0), []),
    ]),
    "cancel, already aborted: ignored": (2, [
        (Cancel(3, 0), [AbortSnapshot(3, CANCELLED)]),
        (Cancel(3, 1), []),
    ]),
    "end of partition, nothing pending: nothing": (2, [
        (EndOfPartition(0), []),
        (EndOfPartition(0), []),
    ]),
    "end of partition, pending: counts as its barrier, may complete": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (EndOfPartition(1), [*taken(1), Unblock(0)]),
    ]),
    "end of partition, pending: a blocked channel is released": (3, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (EndOfPartition(0), [Unblock(0)]),
        (Barrier(1, 1), [Block(1)]),
    ]),
    "barrier and end of the same channel: count once": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (EndOfPartition(0), [Unblock(0)]),
        (Barrier(1, 1), [Block(1), *taken(1), Unblock(1)]),
    ]),
    "single channel: never blocks, at once": (1, [
        (Barrier(1, 0), [StartAlignment(1), *taken(1)]),
        (Barrier(2, 0), [StartAlignment(2), *taken(2)]),
    ]),
    "single channel: old and repeated barriers are obsolete": (1, [
        (Barrier(2, 0), [StartAlignment(2), *taken(2)]),
        (Barrier(1, 0), []),
        (Barrier(2, 0), []),
    ]),
    "announcements, timers and queued bytes without a limit mean nothing": (2, [
        (Announcement(Barrier(1, 0)), []),
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (Timeout(1), []),
        (BytesQueued(10**12), []),
    ]),
}  # fmt: skip

SECTION_11_1_FINISHED_OFF = {
    "end of partition, pending, feature off: aborted": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (EndOfPartition(1), [Unblock(0), AbortSnapshot(1, ENDED)]),
        (Barrier(2, 0), [StartAlignment(2), Block(0), *taken(2), Unblock(0)]),
    ]),
    "end of partition, nothing pending, feature off: nothing": (2, [
        (EndOfPartition(1), []),
    ]),
}  # fmt: skip

SECTION_11_2_LIMIT_100 = {
    "as many bytes as the limit are allowed": (2, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (BytesQueued(100), []),
    ]),
    "more: unblocked and aborted, later barriers of the checkpoint swallowed": (3, [
        (Barrier(1, 0), [StartAlignment(1), Block(0)]),
        (BytesQueued(101), [Unblock(0), AbortSnapshot(1, LIMIT)]),
        (Barrier(1, 1), []),
        (BytesQueued(101), []),
        (Barrier(2, 1), [StartAlignment(2), Block(1)]),
    ]),
    "nothing pending: nothing to abort": (2, [
        (BytesQueued(101), []),
    ]),
}  # fmt: skip


@for_each(("channels", "story"), SECTION_11_1.values(), ids=SECTION_11_1)
def test_section_11_1(channels, story):
    handler = AlignedBarrierHandler(channels)
    assert [(event, handler.step(event)) for event, _ in story] == story


@for_each(("channels", "story"), SECTION_11_1_FINISHED_OFF.values(), ids=SECTION_11_1_FINISHED_OFF)
def test_section_11_1_without_checkpoints_after_tasks_finish(channels, story):
    handler = AlignedBarrierHandler(channels, checkpoints_after_tasks_finish=False)
    assert [(event, handler.step(event)) for event, _ in story] == story


@for_each(("channels", "story"), SECTION_11_2_LIMIT_100.values(), ids=SECTION_11_2_LIMIT_100)
def test_section_11_2_alignment_limit(channels, story):
    handler = AlignedBarrierHandler(channels, alignment_limit=100)
    assert [(event, handler.step(event)) for event, _ in story] == story


class Model:
    """Remembers everything that happened and decides each time from the whole history, without any counter."""

    def __init__(self, channels, finished, limit):
        self.channels, self.finished, self.limit = channels, finished, limit
        self.history = []
        self.started, self.ended = {}, set()  # id -> channels open when it began; ids taken or aborted

    def snapshots(self, event):
        before_current = max([*self.started, *self.ended], default=-1)
        pending = before_current in self.started and before_current not in self.ended
        closed_before = {e.channel for e in self.history if isinstance(e, EndOfPartition)}
        self.history.append(event)
        out = []
        match event:
            case Barrier(checkpoint_id=i, channel=_):
                if i < before_current or (i == before_current and not pending):
                    return out
                if i > before_current:
                    if pending:
                        self.ended.add(before_current)
                        out.append(("abort", before_current))
                    self.started[i] = set(range(self.channels)) - closed_before
            case Cancel(checkpoint_id=i):
                if i > before_current or (i == before_current and pending):
                    if pending:
                        self.ended.add(before_current)
                    self.ended.add(i)
                    out.append(("abort", i))
                return out
            case EndOfPartition(channel=c):
                if c in closed_before or not pending:
                    return out
                if not self.finished:
                    self.ended.add(before_current)
                    return [("abort", before_current)]
            case BytesQueued(bytes=size):
                if not pending or self.limit is None or size <= self.limit:
                    return out
                self.ended.add(before_current)
                return [("abort", before_current)]
        current = max(self.started)
        arrived = {e.channel for e in self.history if isinstance(e, Barrier) and e.checkpoint_id == current}
        arrived |= {e.channel for e in self.history if isinstance(e, EndOfPartition)}
        if self.started[current] <= arrived:
            self.ended.add(current)
            out.append(("take", current))
        return out

    def held_back(self):
        """Channels that have delivered the barrier of the pending checkpoint and may still bring more."""
        current = max([*self.started, *self.ended], default=-1)
        if current in self.ended or self.channels == 1:
            return set()
        barriers = {e.channel for e in self.history if isinstance(e, Barrier) and e.checkpoint_id == current}
        return barriers - {e.channel for e in self.history if isinstance(e, EndOfPartition)}


@st.composite
def streams(draw):
    """Events as channels can really bring them: a channel says nothing after its end."""
    channels = draw(st.integers(1, 4))
    closed, events = set(), []
    for _ in range(draw(st.integers(0, 25))):
        channel = draw(st.sampled_from([c for c in range(channels) if c not in closed] or [None]))
        if channel is None:
            break
        kind = draw(st.sampled_from("bbbbceq"))
        if kind == "e":
            closed.add(channel)
            events.append(EndOfPartition(channel))
        elif kind == "q":
            events.append(BytesQueued(draw(st.integers(0, 200))))
        else:
            events.append((Barrier if kind == "b" else Cancel)(draw(st.integers(0, 5)), channel))
    return channels, events


@settings(deadline=None)
@given(streams(), st.booleans(), st.sampled_from([None, 100]))
def test_snapshots_aborts_and_blocked_channels_are_those_of_the_model(stream, finished, limit):
    channels, events = stream
    handler, model = AlignedBarrierHandler(channels, finished, limit), Model(channels, finished, limit)
    blocked = set()
    for event in events:
        if not isinstance(event, BytesQueued) and event.channel in blocked:
            continue  # the gate would not take it now
        told = []
        for action in handler.step(event):
            match action:
                case Block(channel):
                    assert channel not in blocked
                    blocked.add(channel)
                case Unblock(channel):
                    blocked.remove(channel)
                case TakeSnapshot(checkpoint_id):
                    assert model.channels == 1 or isinstance(event, EndOfPartition) or event.channel in blocked
                    told.append(("take", checkpoint_id))
                case AbortSnapshot(checkpoint_id, _):
                    told.append(("abort", checkpoint_id))
        assert told == model.snapshots(event)
        assert blocked == model.held_back()
