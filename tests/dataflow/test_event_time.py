"""How far inputs have come in event time: by what arrives, never back, and to the end of time when all has ended."""

from cases import for_each
from gates import open_gate, segment

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Ended, Exchange, InFlight, Released
from tidegate.dataflow.event_time import InputWatermarks
from tidegate.dataflow.in_flight import in_flight_of, with_in_flight
from tidegate.ports import Segment
from tidegate.protocol.barriers.messages import EndOfData, EndOfPartition, StopMode
from tidegate.protocol.facts.records import Snapshot
from tidegate.protocol.steps.watermarks import END_OF_TIME, with_watermarks

CHANNELS = [ChannelName("log", 0), ChannelName("log", 1), ChannelName("joined"), ChannelName("names", 0)]


def inputs() -> InputWatermarks:
    return InputWatermarks({"log": 10, "joined": 0}, CHANNELS)


def read(event_time: int | None) -> Segment:
    return Segment(0, {}, 1, event_time)


def test_the_slowest_of_the_inputs_counts_and_each_only_moves_forward() -> None:
    marks = inputs()
    marks.arrive("log", read(100))
    assert marks.lowest is None
    marks.arrive("joined", Exchange((), 70))
    marks.arrive("names", read(1))
    assert marks.lowest == 70
    marks.arrive("joined", Exchange((), 200))
    marks.arrive("joined", Exchange((), None))
    marks.arrive("log", read(50))
    marks.arrive("log", read(None))
    assert marks.lowest == 90


def test_an_input_has_ended_when_all_its_channels_have() -> None:
    marks = inputs()
    marks.arrive("joined", Exchange((), 70))
    marks.end(1)
    marks.end(3)
    assert marks.lowest is None
    marks.end(0)
    assert marks.lowest == 70
    marks.end(2)
    assert marks.lowest == END_OF_TIME


def test_what_a_snapshot_says_of_inputs_that_are_gone_is_forgotten() -> None:
    marks = inputs()
    marks.restore(with_watermarks(Snapshot(), {"log": 5, "joined": 7, "gone": 1}, 3))
    assert (marks.lowest, marks.late) == (5, 3)


@for_each(
    ("recorded", "lateness", "gone"),
    [
        (None, 0, 50),
        (None, 20, 50),  # windows of an older definition, or release, have gone when they left
        (30, 20, 30),
        (30, 40, 30),  # they may be later from now on
        (30, 5, 45),  # or less late
        (30, 0, 50),
    ],
)
def test_windows_that_have_gone_stay_gone_whatever_the_definition_says_now(
    recorded: int | None, lateness: int, gone: int
) -> None:
    marks = InputWatermarks({"log": 0}, CHANNELS, lateness)
    marks.restore(with_watermarks(Snapshot(), {"log": 50}, 0, recorded))
    assert (marks.lowest, marks.gone) == (50, gone)


def test_a_gate_tells_the_end_of_a_channel_in_its_place() -> None:
    gate = open_gate(3)
    gate.offer(0, segment(1))
    gate.signal(EndOfData(0, StopMode.DRAIN))
    gate.signal(EndOfData(1, StopMode.SUSPEND))
    gate.signal(EndOfPartition(2))
    outputs = gate.drain()
    assert [o.channel for o in outputs if isinstance(o, Ended)] == [2, 0]
    assert [type(o) for o in outputs] == [Released, Ended, Ended]


def test_data_in_flight_takes_its_times_along() -> None:
    captured = [InFlight(0, read(17)), InFlight(2, Exchange((), 12)), InFlight(1, read(None))]
    snapshot = with_in_flight(with_watermarks(Snapshot(), {"log": 5}, 0), CHANNELS, captured)
    assert [data for _, data in in_flight_of(snapshot)] == [read(17), Exchange((), 12), read(None)]
    assert snapshot.position is not None
    assert snapshot.position["watermarks"] == {"log": 5}
