"""The input gate: order inside a channel, what is held back, and the measures of an alignment."""

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from tidegate.ports import Segment
from tidegate.protocol.barriers import Barrier, Cancel, EndOfPartition
from tidegate.protocol.reasons import FailureReason
from tidegate.spark.gate import Aborted, Aligned, InputGate, Released


def segment(name: int, size: int = 10) -> Segment:
    return Segment(0, {"name": name}, size)


def names(outputs: list[object]) -> list[object]:
    """Segments by name, snapshots as `("snapshot", id)`."""
    shown: list[object] = []
    for output in outputs:
        match output:
            case Released():
                shown.append(output.data.reference["name"])
            case Aligned():
                shown.append(("snapshot", output.checkpoint_id))
            case Aborted():
                shown.append(("abort", output.abort.checkpoint_id))
    return shown


def test_a_snapshot_follows_everything_before_the_barriers_and_nothing_behind_them() -> None:
    gate = InputGate(["flights/0", "weather/0"])
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(2))
    assert names(gate.drain()) == [1]  # 2 waits behind its barrier
    gate.offer(1, segment(3))
    gate.signal(Barrier(1, 1))
    assert names(gate.drain()) == [3, ("snapshot", 1), 2]


def test_a_single_channel_never_waits() -> None:
    gate = InputGate(["flights/0"])
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(2))
    gate.signal(Barrier(2, 0))
    assert names(gate.drain()) == [1, ("snapshot", 1), 2, ("snapshot", 2)]


def test_a_channel_that_ended_is_not_waited_for() -> None:
    gate = InputGate(["flights/0", "weather/0"])
    gate.signal(EndOfPartition(1))
    gate.offer(0, segment(1))
    gate.signal(Barrier(1, 0))
    assert names(gate.drain()) == [1, ("snapshot", 1)]


def test_a_cancelled_checkpoint_releases_what_was_held_back() -> None:
    gate = InputGate(["flights/0", "weather/0"])
    gate.signal(Barrier(1, 0))
    gate.offer(0, segment(1))
    assert gate.drain() == []
    gate.signal(Cancel(1, 1))
    aborted, released = gate.drain()
    assert isinstance(aborted, Aborted)
    assert aborted.abort.reason is FailureReason.DECLINED_ON_CANCELLATION_BARRIER
    assert names([released]) == [1]


def test_a_newer_barrier_gives_the_older_checkpoint_up() -> None:
    gate = InputGate(["flights/0", "weather/0"])
    gate.signal(Barrier(1, 0))
    gate.signal(Barrier(2, 1))
    outputs = gate.drain()
    assert names(outputs) == [("abort", 1)]
    gate.signal(Barrier(2, 0))
    assert names(gate.drain()) == [("snapshot", 2)]


def test_alignment_is_measured_from_the_first_barrier_to_the_last() -> None:
    clock = iter([100.0, 100.25])
    gate = InputGate(["flights/0", "weather/0"], clock=lambda: next(clock))
    gate.offer(0, segment(1, size=1000))
    gate.signal(Barrier(7, 0))
    gate.drain()
    gate.offer(1, segment(2, size=70))
    gate.signal(Barrier(7, 1))
    aligned = gate.drain()[-1]
    assert aligned == Aligned(checkpoint_id=7, first_barrier=100.0, alignment=250, processed_bytes=70)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_every_snapshot_is_the_same_cut_whatever_the_order_of_arrival(plan: list[list[int]], random: object) -> None:
    """`plan[c][n]` segments precede barrier n+1 in channel c; channels are cut to the same number of barriers."""
    barriers = min(len(channel) for channel in plan)
    serial = count()
    queues = []
    for index, channel in enumerate(plan):
        queue: list[object] = []
        for number in range(barriers):
            queue += [(number + 1, next(serial)) for _ in range(channel[number])]
            queue.append(Barrier(number + 1, index))
        queues.append(queue)
    gate = InputGate([f"source/{index}" for index in range(len(plan))])
    seen: list[object] = []
    while any(queues):
        index = random.choice([i for i, queue in enumerate(queues) if queue])  # type: ignore[attr-defined]
        element = queues[index].pop(0)
        if isinstance(element, Barrier):
            gate.signal(element)
        else:
            gate.offer(index, Segment(index, {"name": element}, 1))
        seen += names(gate.drain())
    current = 1
    for output in seen:
        if output == ("snapshot", current):
            current += 1
        else:
            assert output[0] == current  # type: ignore[index]
    assert current == barriers + 1
    assert len(seen) == next(serial) + barriers
