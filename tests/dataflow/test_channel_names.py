"""A channel's name, which a snapshot with data in flight records as text."""

from cases import for_each

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import InFlight
from tidegate.dataflow.in_flight import in_flight_of, with_in_flight
from tidegate.ports import Segment
from tidegate.protocol.facts.records import Snapshot

SPLIT, OPERATOR = ChannelName("orders", 10), ChannelName("totals")


@for_each(("name", "text"), [(SPLIT, "orders/10"), (OPERATOR, "totals")])
def test_a_name_is_recorded_as_text_and_read_back(name: ChannelName, text: str) -> None:
    assert str(name) == text
    assert ChannelName.parse(text) == name


def test_data_in_flight_is_recorded_with_its_channel() -> None:
    segment = Segment(10, {"first": 1}, 3)
    snapshot = with_in_flight(Snapshot(), [OPERATOR, SPLIT], [InFlight(1, segment)])
    recorded = [["orders/10", {"split": 10, "reference": {"first": 1}, "bytes": 3}]]
    assert snapshot.position == {"in_flight": recorded}
    assert in_flight_of(snapshot) == [(SPLIT, segment)]
