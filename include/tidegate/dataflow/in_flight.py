"""Data in flight in a snapshot: an unaligned checkpoint captures it in addition to the state, and a restore puts it
back.

It is recorded with the operator's first subtask, as references. A segment is replayable as it is. The snapshot's
handles keep files on checkpoint storage alive; an exchange consists of such files, and a segment may name some.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate.dataflow.channel import ChannelName
from tidegate.dataflow.elements import Data, Exchange, InFlight
from tidegate.ports import Segment
from tidegate.protocol.facts.handles import handle_from_json, handle_to_json
from tidegate.protocol.facts.records import HandleKind, Snapshot, StateHandle


def with_in_flight(snapshot: Snapshot, channels: Sequence[ChannelName], captured: Sequence[InFlight]) -> Snapshot:
    """Return the snapshot of an operator's first subtask with the data captured at its gate, in order."""
    if not captured:
        return snapshot
    position = {
        **(snapshot.position or {}),
        "in_flight": [[str(channels[item.channel]), _to_json(item.data)] for item in captured],
    }
    kept = (replace(handle, kind=HandleKind.CHANNEL) for handle in exchanged(item.data for item in captured))
    return replace(snapshot, handles=(*snapshot.handles, *kept), position=position)


def in_flight_of(snapshot: Snapshot | None) -> list[tuple[ChannelName, Data]]:
    """Return channels and data in the order in which they must be put back, ahead of anything else."""
    position = snapshot.position if snapshot is not None else None
    recorded = (position or {}).get("in_flight", ())
    return [(ChannelName.parse(channel), _from_json(data)) for channel, data in recorded]


def exchanged(data: Iterable[Data]) -> list[StateHandle]:
    """Return the files on checkpoint storage that the data refers to."""
    return [handle for item in data for handle in (item.handles if isinstance(item, Exchange) else item.files)]


def _to_json(data: Data) -> dict[str, Any]:
    if isinstance(data, Exchange):
        mark = {} if data.watermark is None else {"watermark": data.watermark}
        return {"handles": [handle_to_json(handle) for handle in data.handles], **mark}
    optional: dict[str, Any] = {} if data.event_time is None else {"event_time": data.event_time}
    optional |= {"ahead": data.ahead} if data.ahead else {}
    optional |= {"files": [handle_to_json(handle) for handle in data.files]} if data.files else {}
    return {"split": data.split, "reference": dict(data.reference), "bytes": data.bytes, **optional}


def _from_json(data: Mapping[str, Any]) -> Data:
    if "handles" in data:
        return Exchange(tuple(handle_from_json(handle) for handle in data["handles"]), data.get("watermark"))
    files = tuple(handle_from_json(handle) for handle in data.get("files", ()))
    times = data.get("event_time"), data.get("ahead", 0)
    return Segment(data["split"], data["reference"], data["bytes"], *times, files)
