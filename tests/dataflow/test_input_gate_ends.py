"""How an input gate says that data has ended: for ever, or
for as long as the pipeline is stopped (sections 13 and 18)."""

from cases import for_each
from gates import AT_LEAST_ONCE, EXACTLY_ONCE, MAY_BE_UNALIGNED, SettableClock, captured, open_gate, segment
from worlds import MemorySink, small_pipeline

from tidegate.dataflow.elements import Aborted, Aligned, Output, Released, SnapshotDue
from tidegate.dataflow.operator_chains import build_chains
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.barriers.messages import UNALIGNED, Barrier, EndOfData, EndOfPartition, Marker, StopMode
from tidegate.protocol.barriers.options import GateOptions

DRAIN, SUSPEND = StopMode.DRAIN, StopMode.SUSPEND
HANDLERS = [EXACTLY_ONCE, AT_LEAST_ONCE, MAY_BE_UNALIGNED]


def aligned(outputs: list[Output]) -> list[tuple[int, StopMode | None]]:
    return [(output.checkpoint_id, output.ended) for output in outputs if isinstance(output, Aligned)]


@for_each("options", HANDLERS)
@for_each(
    ("before", "ended"),
    [
        ([None, None], None),
        ([DRAIN, None], None),
        ([DRAIN, DRAIN], DRAIN),
        ([SUSPEND, SUSPEND], SUSPEND),
        ([DRAIN, SUSPEND], SUSPEND),  # a part may go on, so the whole may
    ],
)
def test_an_input_has_ended_when_every_channel_said_so_before_its_barrier(
    options: GateOptions, before: list[StopMode | None], ended: StopMode | None
) -> None:
    gate = open_gate(2, options)
    outputs: list[Output] = []
    for channel, mode in enumerate(before):
        gate.offer(channel, segment(channel))
        if mode is not None:
            gate.signal(EndOfData(channel, mode))
        gate.signal(Barrier(1, channel))
        outputs += gate.drain()
    assert aligned(outputs) == [(1, ended)]
    assert [output for output in outputs if isinstance(output, Released)]
    assert len([output for output in outputs if isinstance(output, SnapshotDue)]) == 1


def test_an_end_behind_the_barrier_belongs_to_the_next_checkpoint() -> None:
    gate = open_gate(2, AT_LEAST_ONCE)  # nothing is held back, so it is seen too early
    script: list[Marker] = [Barrier(1, 0), EndOfData(0, DRAIN), EndOfData(1, DRAIN), Barrier(1, 1)]
    for marker in script:
        gate.signal(marker)
    assert aligned(gate.drain()) == [(1, None)]
    gate.signal(Barrier(2, 0))
    gate.signal(Barrier(2, 1))
    assert aligned(gate.drain()) == [(2, DRAIN)]


def test_an_end_that_an_unaligned_barrier_overtakes_belongs_to_the_next_checkpoint() -> None:
    gate = open_gate(1, MAY_BE_UNALIGNED)
    gate.offer(0, segment("queued"))
    gate.signal(EndOfData(0, DRAIN))
    gate.signal(Barrier(1, 0, UNALIGNED))
    assert aligned(gate.drain()) == [(1, None)]


def test_nor_does_an_input_end_with_a_checkpoint_that_holds_some_of_it_in_flight() -> None:
    """The snapshot was taken before these rows. If the operator counted as finished with it, it would never be asked
    for another one, and its state would lack them for ever."""
    gate = open_gate(2, MAY_BE_UNALIGNED)
    gate.signal(EndOfData(0, DRAIN))
    gate.signal(Barrier(1, 0, UNALIGNED))
    outputs = gate.drain()
    gate.offer(1, segment("late"))
    gate.signal(EndOfData(1, DRAIN))
    outputs += gate.drain()
    gate.signal(Barrier(1, 1, UNALIGNED))
    outputs += gate.drain()
    assert aligned(outputs) == [(1, None)]
    assert [captured(output) for output in outputs if isinstance(output, Aligned)] == [[(1, "late")]]
    gate.signal(Barrier(2, 0, UNALIGNED))
    gate.signal(Barrier(2, 1, UNALIGNED))
    assert aligned(gate.drain()) == [(2, DRAIN)]


def test_a_channel_that_ended_before_the_checkpoint_is_not_in_its_target() -> None:
    gate = open_gate(2)
    gate.signal(EndOfPartition(0))
    gate.signal(EndOfData(1, DRAIN))
    gate.signal(Barrier(4, 1))
    assert aligned(gate.drain()) == [(4, DRAIN)]


@for_each("channels", [1, 2, 3])
@for_each("options", HANDLERS)
def test_with_every_channel_ended_one_barrier_from_nobody_is_enough(options: GateOptions, channels: int) -> None:
    gate = open_gate(channels, options)
    for channel in range(channels):
        gate.signal(EndOfPartition(channel))
    gate.signal(Barrier(4, 0))
    outputs = gate.drain()
    assert aligned(outputs) == [(4, DRAIN)]
    assert [output.checkpoint_id for output in outputs if isinstance(output, SnapshotDue)] == [4]
    assert gate.drain() == []


@for_each("switch", [True, False])
def test_the_switch_reaches_the_gates(switch: bool) -> None:
    pipeline = small_pipeline(MemorySink())
    pipeline.checkpoints = CheckpointConfig(checkpoints_after_tasks_finish=switch)
    gate = build_chains(compile_graph(pipeline), SettableClock())[0].gate
    gate.signal(Barrier(1, 0))
    gate.signal(EndOfPartition(1))
    outputs = gate.drain()
    assert bool(aligned(outputs)) is switch
    assert any(isinstance(output, Aborted) for output in outputs) is not switch


def test_nor_with_one_that_holds_rows_of_a_channel_whose_end_says_no_barrier_will_come() -> None:
    """As after a restore: the rows were in flight, and the source has finished. No barrier of it shows what it
    overtakes."""
    gate = open_gate(2, MAY_BE_UNALIGNED)
    gate.offer(0, segment("put back"))
    gate.signal(EndOfPartition(0))
    gate.signal(EndOfData(1, DRAIN))
    outputs = gate.drain(0)
    gate.signal(Barrier(1, 1, UNALIGNED))
    outputs += gate.drain()
    assert [captured(output) for output in outputs if isinstance(output, Aligned)] == [[(0, "put back")]]
    assert aligned(outputs) == [(1, None)]
