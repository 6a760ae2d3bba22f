"""Input gates over numbered segments, and the clock that decides about their timers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Aborted, Aligned, InFlight, Output, Released, SnapshotDue, milliseconds
from tidegate.dataflow.input_gate import InputGate
from tidegate.ports import Segment
from tidegate.protocol.barriers.messages import AlignmentType, Barrier, BarrierOptions
from tidegate.protocol.barriers.options import GateOptions, make_handler

EXACTLY_ONCE = GateOptions()
AT_LEAST_ONCE = GateOptions(exactly_once=False)
MAY_BE_UNALIGNED = GateOptions(unaligned=True)

TRIGGERED = datetime(2026, 1, 1, tzinfo=UTC)
TIMED = BarrierOptions(AlignmentType.ALIGNED, timeout=100)


class SettableClock:
    """`seconds`: what it measures durations with, if not by its own time."""

    def __init__(self, seconds: Iterator[float] | None = None) -> None:
        self.time = TRIGGERED
        self._seconds = seconds

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp() if self._seconds is None else next(self._seconds)

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def pass_milliseconds(self, duration: int) -> None:
        self.time += timedelta(milliseconds=duration)


def open_gate(channels: int, options: GateOptions = EXACTLY_ONCE, clock: SettableClock | None = None) -> InputGate:
    names = [ChannelName("source", channel) for channel in range(channels)]
    return InputGate(names, make_handler(options, channels), clock or SettableClock())


def segment(name: object, size: int = 10) -> Segment:
    return Segment(0, {"name": name}, size)


def timed(checkpoint_id: int, channel: int) -> Barrier:
    return Barrier(checkpoint_id, channel, TIMED, milliseconds(TRIGGERED))


def name_of(held: Released | InFlight) -> Any:
    assert isinstance(held.data, Segment)
    return held.data.reference["name"]


def shown(outputs: list[Output]) -> list[object]:
    """Segments by name, snapshots as `("snapshot", id)`, what was captured
    as `("captured", id, channel and name of each)`."""
    result: list[object] = []
    for output in outputs:
        match output:
            case Released():
                result.append(name_of(output))
            case SnapshotDue():
                result.append(("snapshot", output.checkpoint_id))
            case Aligned() if output.captured:
                result.append(("captured", output.checkpoint_id, captured(output)))
            case Aborted():
                result.append(("abort", output.abort.checkpoint_id))
    return result


def captured(aligned: Aligned) -> list[object]:
    return [(in_flight.channel, name_of(in_flight)) for in_flight in aligned.captured]
