"""The input gate: order inside a channel, what is held back, and the measures of an alignment."""

from gates import (
    AT_LEAST_ONCE,
    TIMED,
    TRIGGERED,
    SettableClock,
    open_gate,
    segment,
    shown,
    timed,
)

from tidegate.dataflow.elements import Aborted, Aligned, SnapshotDue, milliseconds
from tidegate.protocol.barriers.messages import (
    ALIGNED,
    Barrier,
    Cancel,
    EndOfPartition,
)
from tidegate.protocol.barriers.options import GateOptions
from tidegate.protocol.facts.reasons import FailureReason

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
    gate = open_gate(2, clock=SettableClock(clock))
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
    gate = open_gate(2, AT_LEAST_ONCE, clock=SettableClock(clock))
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
    gate = open_gate(3, AT_LEAST_ONCE, clock=SettableClock(clock))
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
