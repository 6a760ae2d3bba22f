"""The input gate where barriers overtake: what is captured, what times out, and what waits in its channel."""

from dataclasses import replace

from gates import (
    MAY_BE_UNALIGNED,
    TIMED,
    TRIGGERED,
    SettableClock,
    open_gate,
    segment,
    shown,
    timed,
)

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Aligned, SnapshotDue, milliseconds
from tidegate.dataflow.input_gate import InputGate
from tidegate.protocol.barriers.messages import (
    ALIGNED,
    UNALIGNED,
    Action,
    AlignmentType,
    Announcement,
    Barrier,
    Cancel,
    EndOfPartition,
    GateEvent,
)

# -- unaligned


def test_an_unaligned_barrier_overtakes_what_is_queued_and_that_is_captured() -> None:
    gate = open_gate(2, MAY_BE_UNALIGNED)
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0, UNALIGNED))
    gate.offer(0, segment(2))
    assert shown(gate.drain()) == [("snapshot", 1), 1, 2]
    gate.offer(1, segment(3))
    assert shown(gate.drain()) == [3]  # its barrier is missing: captured and processed
    gate.offer(1, segment(4))
    gate.signal(Barrier(1, 1, UNALIGNED))
    gate.offer(1, segment(5))
    assert shown(gate.drain()) == [("captured", 1, [(0, 1), (1, 3), (1, 4)]), 4, 5]


def test_captured_data_is_the_persisted_in_flight_data_and_its_size_makes_a_checkpoint_unaligned() -> None:
    clock = iter([1.0, 1.5, 2.0, 2.0])
    gate = open_gate(2, MAY_BE_UNALIGNED, clock=SettableClock(clock))
    gate.offer(0, segment(1, size=100))
    gate.signal(Barrier(1, 0, UNALIGNED))
    gate.drain()
    gate.offer(1, segment(2, size=11))
    gate.signal(Barrier(1, 1, UNALIGNED))
    [aligned] = [output for output in gate.drain() if isinstance(output, Aligned)]
    assert aligned.alignment == 500
    assert aligned.processed_bytes == 100
    assert aligned.persisted_bytes == 111
    gate.signal(Barrier(2, 0, UNALIGNED))
    gate.signal(Barrier(2, 1, UNALIGNED))
    [aligned] = [output for output in gate.drain() if isinstance(output, Aligned)]
    assert aligned.persisted_bytes == 0


def test_an_abort_ends_the_capture_and_drops_what_it_has() -> None:
    gate = open_gate(2, MAY_BE_UNALIGNED)
    gate.signal(Barrier(1, 0, UNALIGNED))
    gate.offer(1, segment(1))
    gate.signal(Cancel(1, 1))
    gate.offer(1, segment(2))
    assert shown(gate.drain()) == [("snapshot", 1), 1, ("abort", 1), 2]
    gate.offer(1, segment(3))
    gate.signal(Barrier(2, 0, UNALIGNED))
    gate.signal(Barrier(2, 1, UNALIGNED))
    assert shown(gate.drain()) == [("snapshot", 2), ("captured", 2, [(1, 3)]), 3]


def test_a_savepoint_after_an_aborted_unaligned_checkpoint_captures_nothing() -> None:
    gate = open_gate(2, MAY_BE_UNALIGNED)
    gate.signal(Barrier(1, 0, UNALIGNED))
    gate.offer(1, segment(1))
    gate.signal(Cancel(1, 1))
    gate.drain()
    gate.signal(Barrier(2, 0))
    gate.signal(Barrier(2, 1))
    assert shown(gate.drain()) == [("snapshot", 2)]


def test_a_priority_barrier_waits_behind_what_blocks_its_channel() -> None:
    gate = open_gate(2, MAY_BE_UNALIGNED)
    gate.signal(Barrier(1, 0))
    assert gate.drain() == []
    gate.offer(0, segment(1))
    gate.signal(Barrier(2, 0, UNALIGNED))
    assert gate.drain() == []  # the savepoint is not aborted for a checkpoint
    gate.signal(Barrier(1, 1))
    assert shown(gate.drain()) == [("snapshot", 1), ("snapshot", 2), 1]


def test_a_savepoint_between_unaligned_checkpoints_is_aligned() -> None:
    gate = open_gate(2, MAY_BE_UNALIGNED)
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0, ALIGNED))
    gate.offer(0, segment(2))
    assert shown(gate.drain()) == [1]
    gate.signal(Barrier(1, 1, ALIGNED))
    assert shown(gate.drain()) == [("snapshot", 1), 2]


# -- aligned with a timeout


def test_a_barrier_that_comes_in_time_finishes_aligned_and_leaves_no_timer() -> None:
    clock = SettableClock()
    gate = open_gate(2, MAY_BE_UNALIGNED, clock)
    gate.signal(timed(1, 0))
    gate.drain()
    assert gate.timer == milliseconds(TRIGGERED) + 100
    gate.offer(0, segment(1))
    gate.signal(timed(1, 1))
    assert shown(gate.drain()) == [("snapshot", 1), 1]
    assert gate.timer is None
    clock.pass_milliseconds(1000)
    assert gate.drain() == []


def test_when_the_time_is_up_a_collecting_gate_takes_the_snapshot_and_captures_the_rest() -> None:
    clock = SettableClock()
    gate = open_gate(3, MAY_BE_UNALIGNED, clock)
    gate.offer(0, segment(1))
    gate.signal(timed(1, 0))
    gate.offer(0, segment(2))
    assert shown(gate.drain()) == [1]
    clock.pass_milliseconds(99)
    assert gate.drain() == []
    clock.pass_milliseconds(1)
    [due] = gate.drain()
    assert due == SnapshotDue(1, replace(TIMED, alignment=AlignmentType.UNALIGNED), milliseconds(TRIGGERED))
    gate.offer(1, segment(3))
    gate.signal(replace(timed(1, 1), options=UNALIGNED))
    gate.offer(2, segment(4))
    gate.signal(timed(1, 2))  # is announced, and overtakes at once
    assert shown(gate.drain()) == [("captured", 1, [(1, 3), (2, 4)]), 2, 3, 4]


def test_an_announced_barrier_overtakes_once_the_time_is_up() -> None:
    clock = SettableClock()
    gate = open_gate(2, MAY_BE_UNALIGNED, clock)
    for channel, names in ((0, (1, 2)), (1, (3, 4))):
        for name in names:
            gate.offer(channel, segment(name))
        gate.signal(timed(1, channel))
    assert shown(gate.drain(max_bytes=10)) == [1]  # the micro-batch is full, and the barriers wait behind 2, 3 and 4
    assert gate.timer == milliseconds(TRIGGERED) + 100
    clock.pass_milliseconds(100)
    assert shown(gate.drain(max_bytes=0)) == [("snapshot", 1), ("captured", 1, [(0, 2), (1, 3), (1, 4)])]
    assert shown(gate.drain()) == [3, 2, 4]


def test_a_timeout_with_barriers_in_order_and_announced_ones_captures_only_what_the_announced_ones_overtake() -> None:
    clock = SettableClock()
    gate = open_gate(2, MAY_BE_UNALIGNED, clock)
    gate.signal(timed(1, 0))
    gate.offer(0, segment(1))  # behind the barrier: not part of the checkpoint
    gate.offer(1, segment(2))
    gate.offer(1, segment(3))
    gate.signal(timed(1, 1))
    gate.offer(1, segment(4))
    assert shown(gate.drain(max_bytes=10)) == [2]
    clock.pass_milliseconds(100)
    assert shown(gate.drain()) == [("snapshot", 1), ("captured", 1, [(1, 3)]), 1, 3, 4]


def test_priority_barriers_of_a_channel_keep_their_order() -> None:
    clock = SettableClock()
    gate = open_gate(2, MAY_BE_UNALIGNED, clock)
    gate.offer(0, segment(1))
    gate.signal(timed(1, 0))
    gate.drain(max_bytes=0)
    gate.signal(Barrier(2, 0, UNALIGNED))
    clock.pass_milliseconds(100)
    assert shown(gate.drain()) == [("snapshot", 1), ("abort", 1), ("snapshot", 2), 1]


class Recording:
    """A handler that only remembers what it was told."""

    def __init__(self) -> None:
        self.events: list[GateEvent] = []

    def step(self, event: GateEvent) -> list[Action]:
        self.events.append(event)
        return []


def test_events_carry_the_time_at_which_they_were_taken() -> None:
    handler, clock = Recording(), SettableClock()
    gate = InputGate([ChannelName("source", 0)], handler, clock=clock)
    clock.pass_milliseconds(5)
    now = milliseconds(clock.time)
    barrier = timed(1, 0)
    gate.signal(barrier)
    gate.signal(Cancel(2, 0))
    gate.signal(Barrier(3, 0, UNALIGNED))
    gate.signal(EndOfPartition(0))
    gate.drain()
    taken = replace(barrier, now=now)
    assert handler.events == [
        Announcement(taken), Barrier(3, 0, UNALIGNED, now=now), taken, Cancel(2, 0), EndOfPartition(0, now),
    ]  # fmt: skip
