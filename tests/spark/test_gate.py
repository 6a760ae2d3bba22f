"""The input gate: order inside a channel, what is held back, overtakes or is captured, and the measures of an alignment."""

from dataclasses import replace

from gates import (
    AT_LEAST_ONCE,
    MAY_BE_UNALIGNED,
    TIMED,
    TRIGGERED,
    SettableClock,
    name_of,
    open_gate,
    segment,
    timed,
)

from tidegate.protocol.barrier_options import GateOptions
from tidegate.protocol.barriers import (
    ALIGNED,
    UNALIGNED,
    Action,
    AlignmentType,
    Announcement,
    Barrier,
    Cancel,
    EndOfPartition,
    Event,
)
from tidegate.protocol.reasons import FailureReason
from tidegate.spark.gate import Aborted, Aligned, InputGate, Output, Released, SnapshotDue, milliseconds


def shown(outputs: list[Output]) -> list[object]:
    """Segments by name, snapshots as `("snapshot", id)`, what was captured as `("captured", id, channel and name of each)`."""
    result: list[object] = []
    for output in outputs:
        match output:
            case Released():
                result.append(name_of(output))
            case SnapshotDue():
                result.append(("snapshot", output.checkpoint_id))
            case Aligned() if output.captured:
                result.append(("captured", output.checkpoint_id, captured(output)))
            case Aborted():
                result.append(("abort", output.abort.checkpoint_id))
    return result


def captured(aligned: Aligned) -> list[object]:
    return [(in_flight.channel, name_of(in_flight)) for in_flight in aligned.captured]


# -- aligned


def test_a_snapshot_follows_everything_before_the_barriers_and_nothing_behind_them() -> None:
    gate = open_gate(2)
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(2))
    assert shown(gate.drain()) == [1]  # 2 waits behind its barrier
    gate.offer(1, segment(3))
    gate.signal(Barrier(1, 1))
    assert shown(gate.drain()) == [3, ("snapshot", 1), 2]


def test_a_single_channel_never_waits() -> None:
    gate = open_gate(1)
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(2))
    gate.signal(Barrier(2, 0))
    assert shown(gate.drain()) == [1, ("snapshot", 1), 2, ("snapshot", 2)]


def test_a_channel_that_ended_is_not_waited_for() -> None:
    gate = open_gate(2)
    gate.signal(EndOfPartition(1))
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0))
    assert shown(gate.drain()) == [1, ("snapshot", 1)]


def test_a_cancelled_checkpoint_releases_what_was_held_back() -> None:
    gate = open_gate(2)
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(1))
    assert gate.drain() == []
    gate.signal(Cancel(1, 1))
    aborted, released = gate.drain()
    assert isinstance(aborted, Aborted)
    assert aborted.abort.reason is FailureReason.DECLINED_ON_CANCELLATION_BARRIER
    assert shown([released]) == [1]


def test_a_newer_barrier_gives_the_older_checkpoint_up() -> None:
    gate = open_gate(2)
    gate.signal(Barrier(1, 0))
    gate.signal(Barrier(2, 1))
    assert shown(gate.drain()) == [("abort", 1)]
    gate.signal(Barrier(2, 0))
    assert shown(gate.drain()) == [("snapshot", 2)]


def test_alignment_is_measured_from_the_first_barrier_to_the_last() -> None:
    clock = iter([100.0, 100.25])
    gate = open_gate(2, clock=lambda: next(clock))
    gate.offer(0, segment(1, size=1000))
    gate.signal(Barrier(7, 0))
    gate.drain()
    gate.offer(1, segment(2, size=70))
    gate.signal(Barrier(7, 1))
    aligned, due = gate.drain()[-2:]
    assert aligned == Aligned(checkpoint_id=7, first_barrier=100.0, alignment=250, processed_bytes=70)
    assert due == SnapshotDue(7, ALIGNED, 0)


def test_a_snapshot_carries_on_what_its_barrier_said() -> None:
    gate = open_gate(1)
    gate.signal(timed(1, 0))
    assert gate.drain()[-1] == SnapshotDue(1, TIMED, milliseconds(TRIGGERED))


# -- the alignment limit


def test_more_queued_bytes_than_the_limit_abort_the_checkpoint_and_swallow_its_later_barriers() -> None:
    gate = open_gate(2, GateOptions(alignment_limit=25))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(1))
    gate.offer(0, segment(2))
    assert gate.drain() == []  # 20 bytes wait
    gate.offer(1, segment(3, size=1000))  # not on a blocked channel
    assert shown(gate.drain()) == [3]
    gate.offer(0, segment(4))
    outputs = gate.drain()
    assert shown(outputs) == [("abort", 1), 1, 2, 4]
    assert isinstance(outputs[0], Aborted)
    assert outputs[0].abort.reason is FailureReason.ALIGNMENT_LIMIT_EXCEEDED
    gate.signal(Barrier(1, 1))
    gate.offer(1, segment(5))
    assert shown(gate.drain()) == [5]


def test_what_was_released_counts_for_the_limit_no_longer() -> None:
    gate = open_gate(2, GateOptions(alignment_limit=25))
    for checkpoint_id in (1, 2, 3):
        gate.signal(Barrier(checkpoint_id, 0))
        gate.offer(0, segment(checkpoint_id, size=20))
        assert gate.drain() == []
        gate.signal(Barrier(checkpoint_id, 1))
        assert shown(gate.drain()) == [("snapshot", checkpoint_id), checkpoint_id]


def test_what_waits_for_the_next_micro_batch_does_not_count_for_the_limit() -> None:
    gate = open_gate(2, GateOptions(alignment_limit=25))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(1))
    gate.offer(1, segment(2))
    gate.offer(1, segment(3, size=1000))
    assert shown(gate.drain(max_bytes=10)) == [2]
    gate.drain()
    gate.signal(Barrier(1, 1))
    assert shown(gate.drain()) == [("snapshot", 1), 1]


def test_a_limit_that_the_last_barrier_comes_in_time_for_is_not_exceeded() -> None:
    gate = open_gate(2, GateOptions(alignment_limit=25))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(1, size=1000))
    gate.signal(Barrier(1, 1))
    assert shown(gate.drain()) == [("snapshot", 1), 1]


# -- at least once


def test_at_least_once_holds_nothing_back() -> None:
    gate = open_gate(2, AT_LEAST_ONCE)
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(1))
    assert shown(gate.drain()) == [1]  # ahead of the snapshot: read again after a restore
    gate.signal(Barrier(1, 1))
    assert shown(gate.drain()) == [("snapshot", 1)]


def test_each_of_several_checkpoints_in_flight_has_its_own_measures() -> None:
    clock = iter([1.0, 2.0, 3.0, 5.0])
    gate = open_gate(2, AT_LEAST_ONCE, clock=lambda: next(clock))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(1, size=7))
    gate.signal(Barrier(2, 0))
    gate.drain()
    gate.offer(1, segment(2, size=50))
    gate.signal(Barrier(1, 1))
    gate.signal(Barrier(2, 1))
    measured = [output for output in gate.drain() if isinstance(output, Aligned)]
    assert measured == [Aligned(1, 1.0, 2000, 57), Aligned(2, 2.0, 3000, 50)]


def test_what_was_measured_of_checkpoints_that_got_stuck_is_forgotten() -> None:
    gate = open_gate(2, AT_LEAST_ONCE)
    for checkpoint_id in range(200):
        gate.signal(Barrier(checkpoint_id, 0))
    gate.drain()
    assert len(gate._started) == 51  # those that are tracked, and one that may complete at once
    gate.signal(Barrier(150, 1))
    assert shown(gate.drain()) == [("snapshot", 150)]


def test_an_older_checkpoint_may_still_complete_after_one_that_completed_at_once() -> None:
    clock = iter([1.0, 4.0, 4.0, 6.0])
    gate = open_gate(3, AT_LEAST_ONCE, clock=lambda: next(clock))
    gate.signal(Barrier(1, 0))
    gate.drain()
    for channel in (0, 1):
        gate.signal(EndOfPartition(channel))
    gate.signal(Barrier(2, 2))
    gate.signal(EndOfPartition(2))
    measured = [output for output in gate.drain() if isinstance(output, Aligned)]
    assert measured == [Aligned(2, 4.0, 0, 0), Aligned(1, 1.0, 5000, 0)]


def test_an_aborted_checkpoint_leaves_no_measures() -> None:
    gate = open_gate(2)
    gate.signal(Barrier(1, 0))
    gate.signal(Cancel(1, 1))
    assert shown(gate.drain()) == [("abort", 1)]
    assert not gate._started


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
    gate = open_gate(2, MAY_BE_UNALIGNED, clock=lambda: next(clock))
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
    assert gate.drain() == []  # the savepoint is not given up for a checkpoint
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
        self.events: list[Event] = []

    def step(self, event: Event) -> list[Action]:
        self.events.append(event)
        return []


def test_events_carry_the_time_at_which_they_were_taken() -> None:
    handler, clock = Recording(), SettableClock()
    gate = InputGate(["source/0"], handler, wall_clock=clock)
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


# -- micro-batches


def test_a_micro_batch_ends_when_it_is_full_and_the_next_goes_on_with_the_next_channel() -> None:
    gate = open_gate(3)
    for name in range(6):
        gate.offer(name % 3, segment(name))
    assert [shown(gate.drain(max_bytes=20)) for _ in range(4)] == [[0, 1], [2, 3], [4, 5], []]


def test_barriers_at_the_head_of_their_channels_are_taken_when_the_micro_batch_is_full() -> None:
    gate = open_gate(2)
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0))
    gate.signal(Barrier(1, 1))
    gate.offer(1, segment(2))
    assert shown(gate.drain(max_bytes=10)) == [1, ("snapshot", 1)]
