"""The channels between operator chains. Data sent into a channel goes to every gate that reads it."""

from collections.abc import Callable, Sequence

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Data, has_rows
from tidegate.dataflow.input_gate import InputGate
from tidegate.dataflow.operator_chains import OperatorChain
from tidegate.protocol.barriers.messages import Marker


class Channels:
    """The channels by name, each with its ends at the gates that read it."""

    def __init__(self, chains: Sequence[OperatorChain]) -> None:
        self._readers: dict[ChannelName, list[tuple[InputGate, int]]] = {}
        self._watermarked: set[tuple[InputGate, int]] = set()  # ends that follow the channel's watermark
        for chain in chains:
            for index, channel in enumerate(chain.gate.channels):
                self._readers.setdefault(channel, []).append((chain.gate, index))
                if chain.watermarks.has(channel.origin):
                    self._watermarked.add((chain.gate, index))

    def feed(self, channel: ChannelName, data: Data) -> None:
        for gate, index in self._readers.get(channel, ()):
            if has_rows(data) or (gate, index) in self._watermarked:
                gate.offer(index, data)

    def signal(self, channel: ChannelName, make: Callable[[int], Marker]) -> None:
        """Send a marker, made for the channel's index at each gate."""
        for gate, index in self._readers.get(channel, ()):
            gate.signal(make(index))

    def queued_bytes(self, channel: ChannelName) -> int:
        """Return the bytes queued in the channel, at the gate with the most."""
        return max((gate.queued_bytes(index) for gate, index in self._readers.get(channel, ())), default=0)
