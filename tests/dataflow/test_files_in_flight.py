"""Files that data in flight refers to stay until it has been read."""

import json

from records import run_handle

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Exchange, InFlight
from tidegate.dataflow.in_flight import exchanged, in_flight_of, with_in_flight
from tidegate.ports import Segment
from tidegate.protocol.facts.records import HandleKind, Snapshot

COPY = run_handle("p/chk-1/dim/0-1-a.csv", 1, kind=HandleKind.POSITION, details={"file": "dim.csv", "at": 7})
SENT = run_handle("p/chk-1/op/0-1-a.parquet", 1, kind=HandleKind.EXCHANGE)
SEGMENT = Segment(0, {"versions": [["p/chk-1/dim/0-1-a.csv", 1]]}, 1, files=(COPY,))


def test_a_snapshot_keeps_the_files_of_segments_and_exchanges_in_flight() -> None:
    data = (SEGMENT, Exchange((SENT,)), Segment(1, {"offset": 3}, 1))
    assert exchanged(data) == [COPY, SENT]
    channels = [ChannelName("dim", 0), ChannelName("op"), ChannelName("log", 1)]
    captured = [InFlight(at, each) for at, each in enumerate(data)]
    snapshot = with_in_flight(Snapshot(), channels, captured)
    assert [(handle.path, handle.kind) for handle in snapshot.handles] == [
        (COPY.path, HandleKind.CHANNEL),
        (SENT.path, HandleKind.CHANNEL),
    ]
    stored = Snapshot(snapshot.handles, json.loads(json.dumps(snapshot.position)))
    assert in_flight_of(stored) == list(zip(channels, data, strict=True))
