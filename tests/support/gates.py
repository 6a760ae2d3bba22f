"""Input gates over numbered segments, and the clock that decides about their timers."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.ports import Segment
from tidegate.protocol.barrier_options import GateOptions, make_handler
from tidegate.protocol.barriers import AlignmentType, Barrier, BarrierOptions
from tidegate.spark.gate import Aborted, Aligned, InFlight, InputGate, Output, Released, SnapshotDue, milliseconds

EXACTLY_ONCE = GateOptions()
AT_LEAST_ONCE = GateOptions(exactly_once=False)
MAY_BE_UNALIGNED = GateOptions(unaligned=True)

TRIGGERED = datetime(2026, 1, 1, tzinfo=UTC)
TIMED = BarrierOptions(AlignmentType.ALIGNED, timeout=100)


class SettableClock:
    def __init__(self) -> None:
        self.time = TRIGGERED

    def now(self) -> datetime:
        return self.time

    def pass_milliseconds(self, duration: int) -> None:
        self.time += timedelta(milliseconds=duration)


def open_gate(
    channels: int, options: GateOptions = EXACTLY_ONCE, wall_clock: SettableClock | None = None, **clock: Any
) -> InputGate:
    names = [f"source/{channel}" for channel in range(channels)]
    return InputGate(names, make_handler(options, channels), wall_clock=wall_clock or SettableClock(), **clock)


def segment(name: object, size: int = 10) -> Segment:
    return Segment(0, {"name": name}, size)


def timed(checkpoint_id: int, channel: int) -> Barrier:
    return Barrier(checkpoint_id, channel, TIMED, milliseconds(TRIGGERED))


def name_of(held: Released | InFlight) -> Any:
    assert isinstance(held.data, Segment)
    return held.data.reference["name"]


def shown(outputs: list[Output]) -> list[object]:
    """Segments by name, snapshots as `("snapshot", id)`, what was captured as `("captured", id, channel and name of each)`."""
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
