"""A channel: its name, and its end at an input gate."""

from collections import deque
from dataclasses import dataclass

from tidegate.dataflow.elements import Data, Exchange
from tidegate.ports import Segment
from tidegate.protocol.barriers.messages import Barrier, Marker, StopMode


@dataclass(frozen=True, slots=True)
class ChannelName:
    """The name of a channel: the vertex whose data it carries and, if that is a source, the split. A snapshot with
    in-flight data stores it as text."""

    origin: str
    split: int | None = None

    def __str__(self) -> str:
        return self.origin if self.split is None else f"{self.origin}/{self.split}"

    @classmethod
    def parse(cls, text: str) -> "ChannelName":
        """Parse the text form. Raise `ValueError` if the split is not a number."""
        origin, slash, split = text.partition("/")
        return cls(origin, int(split) if slash else None)


class Channel:
    """One end of a channel: a queue, and the barriers in it to be handled before their turn."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.queue: deque[Data | Marker] = deque()
        self.urgent: deque[Barrier] = deque()  # to overtake, or to be announced
        self.bytes = 0  # of the data in the queue
        self.blocked = False
        self.ended: StopMode | None = None  # how the data ended, once it has
        self.capturing = False
        self.captured: list[Data] = []
        self.overtaken: list[Data] = []  # data overtaken by the barrier being handled

    @property
    def ready(self) -> bool:
        return bool(self.queue) and not self.blocked

    @property
    def leads_with_data(self) -> bool:
        return isinstance(self.queue[0], Segment | Exchange)

    def put(self, element: Data | Marker) -> None:
        self.queue.append(element)
        match element:
            case Barrier():
                if element.options.unaligned or element.options.times_out_after is not None:
                    self.urgent.append(element)
            case Segment() | Exchange():
                self.bytes += element.bytes

    def take(self) -> Data | Marker:
        element = self.queue.popleft()
        if isinstance(element, Segment | Exchange):
            self.bytes -= element.bytes
            if self.capturing:
                self.captured.append(element)
        return element

    def before(self, barrier: Barrier) -> list[Data]:
        ahead = list(self.queue)[: self.queue.index(barrier)]
        return [element for element in ahead if isinstance(element, Segment | Exchange)]

    def prioritize(self, checkpoint_id: int) -> None:
        for place, element in enumerate(self.queue):
            if isinstance(element, Barrier) and element.checkpoint_id == checkpoint_id:
                self.queue[place] = element.as_unaligned()
                self.urgent.appendleft(element.as_unaligned())
                return

    def start_capture(self) -> None:
        self.capturing, self.captured = True, []

    def stop_capture(self) -> None:
        if self.capturing:
            self.captured += self.overtaken
        self.capturing = False
