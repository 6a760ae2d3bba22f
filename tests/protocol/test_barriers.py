"""protocol.md section 11.1, row by row, and against a slow, obviously right model."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.protocol.barriers import (
    AbortSnapshot,
    AlignedBarrierHandler,
    Barrier,
    Block,
    Cancel,
    EndOfPartition,
    StartAlignment,
    TakeSnapshot,
    Unblock,
)
from tidegate.protocol.reasons import FailureReason

SUBSUMED = FailureReason.DECLINED_SUBSUMED
CANCELLED = FailureReason.DECLINED_ON_CANCELLATION_BARRIER
ENDED = FailureReason.DECLINED_INPUT_END_OF_STREAM


def run(channels, *events, **options):
    handler = AlignedBarrierHandler(channels, **options)
    return [handler.step(event) for event in events]


def test_a_single_channel_never_blocks_and_snapshots_at_once():
    assert run(1, Barrier(1, 0), Barrier(2, 0)) == [
        [StartAlignment(1), TakeSnapshot(1)],
        [StartAlignment(2), TakeSnapshot(2)],
    ]


def test_a_single_channel_ignores_old_barriers():
    assert run(1, Barrier(2, 0), Barrier(1, 0), Barrier(2, 0))[1:] == [[], []]


def test_channels_are_blocked_until_the_last_barrier_and_released_after_the_snapshot():
    assert run(3, Barrier(1, 0), Barrier(1, 2), Barrier(1, 1)) == [
        [StartAlignment(1), Block(0)],
        [Block(2)],
        [Block(1), TakeSnapshot(1), Unblock(0), Unblock(1), Unblock(2)],
    ]


def test_a_newer_barrier_aborts_the_one_being_aligned_and_starts_its_own():
    assert run(2, Barrier(1, 0), Barrier(2, 1), Barrier(2, 0)) == [
        [StartAlignment(1), Block(0)],
        [Unblock(0), AbortSnapshot(1, SUBSUMED), StartAlignment(2), Block(1)],
        [Block(0), TakeSnapshot(2), Unblock(0), Unblock(1)],
    ]


def test_an_older_barrier_is_obsolete():
    assert run(2, Barrier(2, 0), Barrier(1, 1))[1] == []


def test_a_barrier_of_a_completed_checkpoint_is_obsolete():
    assert run(2, Barrier(1, 0), Barrier(1, 1), Barrier(1, 0))[2] == []


def test_a_barrier_repeated_on_a_channel_counts_once():
    assert run(2, Barrier(1, 0), Barrier(1, 0)) == [[StartAlignment(1), Block(0)], []]


def test_a_cancel_marker_aborts_the_checkpoint_being_aligned():
    assert run(2, Barrier(1, 0), Cancel(1, 1), Barrier(1, 1)) == [
        [StartAlignment(1), Block(0)],
        [Unblock(0), AbortSnapshot(1, CANCELLED)],
        [],
    ]


def test_a_cancel_marker_of_a_newer_checkpoint_tells_only_of_the_newer():
    assert run(2, Barrier(1, 0), Cancel(2, 1), Barrier(2, 0)) == [
        [StartAlignment(1), Block(0)],
        [Unblock(0), AbortSnapshot(2, CANCELLED)],
        [],
    ]


def test_cancel_markers_of_older_completed_or_aborted_checkpoints_are_ignored():
    assert run(2, Barrier(3, 0), Cancel(2, 1))[1] == []
    assert run(1, Barrier(3, 0), Cancel(3, 0))[1] == []
    assert run(2, Cancel(3, 0), Cancel(3, 1))[1] == []


def test_the_end_of_an_input_counts_as_its_barrier():
    assert run(2, Barrier(1, 0), EndOfPartition(1)) == [
        [StartAlignment(1), Block(0)],
        [TakeSnapshot(1), Unblock(0)],
    ]


def test_barrier_and_end_of_the_same_channel_count_once():
    assert run(2, Barrier(1, 0), EndOfPartition(0), Barrier(1, 1)) == [
        [StartAlignment(1), Block(0)],
        [Unblock(0)],
        [Block(1), TakeSnapshot(1), Unblock(1)],
    ]


def test_the_end_of_an_input_aborts_where_finished_tasks_are_not_allowed():
    assert run(2, Barrier(1, 0), EndOfPartition(1), checkpoints_after_tasks_finish=False)[1] == [
        Unblock(0),
        AbortSnapshot(1, ENDED),
    ]


def test_an_input_that_ended_before_the_checkpoint_is_not_waited_for():
    assert run(3, EndOfPartition(2), Barrier(1, 0), Barrier(1, 1))[2] == [
        Block(1), TakeSnapshot(1), Unblock(0), Unblock(1),
    ]  # fmt: skip


def test_an_input_that_ends_when_nothing_is_pending_does_nothing():
    assert run(2, EndOfPartition(0), EndOfPartition(0)) == [[], []]


class Model:
    """Remembers everything that happened and decides each time from the whole history, without any counter."""

    def __init__(self, channels):
        self.channels = channels
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
        current = max(self.started)
        arrived = {e.channel for e in self.history if isinstance(e, Barrier) and e.checkpoint_id == current}
        arrived |= {e.channel for e in self.history if isinstance(e, EndOfPartition)}
        if self.started[current] <= arrived:
            self.ended.add(current)
            out.append(("take", current))
        return out


@st.composite
def streams(draw):
    """Events as channels can really bring them: a channel says nothing after its end."""
    channels = draw(st.integers(1, 4))
    closed, events = set(), []
    for _ in range(draw(st.integers(0, 25))):
        channel = draw(st.sampled_from([c for c in range(channels) if c not in closed] or [None]))
        if channel is None:
            break
        kind = draw(st.sampled_from("bbbbce"))
        if kind == "e":
            closed.add(channel)
            events.append(EndOfPartition(channel))
        else:
            events.append((Barrier if kind == "b" else Cancel)(draw(st.integers(0, 5)), channel))
    return channels, events


@given(streams())
def test_snapshots_and_aborts_are_those_of_the_model_and_nothing_stays_blocked(stream):
    channels, events = stream
    handler, model = AlignedBarrierHandler(channels), Model(channels)
    blocked = set()
    for event in events:
        told = []
        for action in handler.step(event):
            match action:
                case Block(channel):
                    assert channel not in blocked
                    blocked.add(channel)
                case Unblock(channel):
                    blocked.remove(channel)
                case TakeSnapshot(checkpoint_id):
                    told.append(("take", checkpoint_id))
                case AbortSnapshot(checkpoint_id, _):
                    told.append(("abort", checkpoint_id))
        assert told == model.snapshots(event)
        current = max([*model.started, *model.ended], default=-1)
        if current in model.ended or current == -1:
            assert not blocked
