"""The channels between the posts of a continuous region: what is sent goes to every gate that reads it."""

from collections.abc import Callable, Sequence

from tidegate.protocol.barriers import Marker
from tidegate.spark.gate import Data, InputGate
from tidegate.spark.posts import OperatorPost


class Channels:
    """By name, as `stations.channel_of` gives it."""

    def __init__(self, posts: Sequence[OperatorPost]) -> None:
        self._readers: dict[str, list[tuple[InputGate, int]]] = {}
        self._posts = posts
        for gate in (post.station.gate for post in posts):
            for index, channel in enumerate(gate.channels):
                self._readers.setdefault(channel, []).append((gate, index))

    def feed(self, channel: str, data: Data) -> None:
        for gate, index in self._readers.get(channel, ()):
            gate.offer(index, data)

    def signal(self, channel: str, make: Callable[[int], Marker]) -> None:
        """Send a marker, made for the channel's index at each gate."""
        for gate, index in self._readers.get(channel, ()):
            gate.signal(make(index))

    def queued_bytes(self, channel: str) -> int:
        """Of data that waits at the gate where most of it does."""
        return max((gate.queued_bytes(index) for gate, index in self._readers.get(channel, ())), default=0)

    def waiting(self) -> list[Data]:
        """Everything on its way, and what appending sinks hold on to."""
        queued = [data for post in self._posts for data in post.station.gate.waiting()]
        return queued + [data for post in self._posts for batch in post.held.values() for data in batch]
