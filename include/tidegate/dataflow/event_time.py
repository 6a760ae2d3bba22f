"""The event-time progress of an operator's inputs, from the data in its channels and their ends.

Watermarks travel with the data. A segment carries the largest event time that its split has read, and the files of an
upstream operator carry its watermark. An input whose channels have all ended has reached the end of time.
"""

from collections.abc import Mapping, Sequence

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Data, Exchange
from tidegate.protocol.facts.records import Snapshot
from tidegate.protocol.steps.watermarks import END_OF_TIME, gone_by, gone_of, lowest, raised, watermarks_of


class InputWatermarks:
    """The watermarks of one operator's inputs. `delays` are those of sources, and 0 for operators. `late` counts the
    rows that no window took. Windows up to `gone` have left the state; `gone` is the former watermark minus `lateness`.
    """

    def __init__(self, delays: Mapping[str, int], channels: Sequence[ChannelName], lateness: int = 0) -> None:
        self._delays = delays
        self._lateness = lateness
        self._open = {origin: {at for at, name in enumerate(channels) if name.origin == origin} for origin in delays}
        self._channels = tuple(channels)
        self.known: dict[str, int] = {}
        self.late = 0
        self.gone: int | None = None

    @property
    def lowest(self) -> int | None:
        """The operator's watermark; None while it has none."""
        return lowest(self._delays, self.known)

    def has(self, origin: str) -> bool:
        """Return whether an input has a watermark that this operator follows."""
        return origin in self._delays

    def restore(self, snapshot: Snapshot | None) -> None:
        """Continue from the snapshot of the operator's first subtask."""
        known, self.late = watermarks_of(snapshot)
        self.known = {origin: watermark for origin, watermark in known.items() if self.has(origin)}
        stored = gone_of(snapshot)
        self.gone = gone_by(self.lowest if stored is None else stored, self.lowest, self._lateness)

    def arrive(self, origin: str, data: Data) -> None:
        if isinstance(data, Exchange):
            self._raise(origin, data.watermark)
        elif self.has(origin) and data.event_time is not None:
            self._raise(origin, data.event_time - self._delays[origin])

    def end(self, channel: int) -> None:
        """Record the end of a channel's data."""
        origin = self._channels[channel].origin
        if self.has(origin):
            self._open[origin].discard(channel)
            if not self._open[origin]:
                self._raise(origin, END_OF_TIME)

    def _raise(self, origin: str, to: int | None) -> None:
        if self.has(origin) and (watermark := raised(self.known.get(origin), to)) is not None:
            self.known[origin] = watermark
