"""Decides which unread records a topic has lost, and where reading continues, from the brokers' reported offsets."""

from collections.abc import Mapping
from typing import Any

from tidegate.kafka.polls import Found
from tidegate.kafka.positions import Position, ranges_between
from tidegate.protocol.recovery.skipping import LostRows


def skip_lost(position: Position, found: Found) -> tuple[list[LostRows], Position]:
    """Return the records, by partition, that a poll from a position refuses as lost, and the position behind them. A
    topic that was made anew is read from its first record, and so is a partition that ends before the position. How
    many records of the former topic were not read is unknown."""
    lost, offsets, began = [], dict[int, int](), dict[int, int]()
    anew = _is_anew(position, found)
    for partition, offset in sorted(position.offsets.items()):
        bounds = found.partitions.get(partition)
        if bounds is None:
            lost.append(LostRows(str(partition), offset, None, None))
            continue
        if anew or bounds.end < offset:
            lost.append(LostRows(str(partition), offset, None, bounds.first))
            offsets[partition] = began[partition] = bounds.first
            continue
        if offset < bounds.first:
            lost.append(LostRows(str(partition), offset, bounds.first - 1, bounds.first))
        offsets[partition], began[partition] = max(offset, bounds.first), position.began[partition]
    return lost, Position(found.topic_id, offsets, began, position.bytes)


def cut_lost(
    start: Mapping[str, Any] | None, end: Mapping[str, Any], found: Found
) -> tuple[list[LostRows], tuple[Position, Position] | None]:
    """Return the lost records between two stored positions, and the two positions between which the rest is."""
    upto = Position.read(end)
    anew = _is_anew(upto, found)
    lost, begins = [], dict[int, int]()
    for partition, begin, last in ranges_between(start, end):
        bounds = found.partitions.get(partition)
        if bounds is None or anew or bounds.end < last:
            lost.append(LostRows(str(partition), begin, last - 1, None if bounds is None else bounds.first))
            continue
        begins[partition] = min(max(begin, bounds.first), last)
        if begin < bounds.first:
            lost.append(LostRows(str(partition), begin, begins[partition] - 1, bounds.first))
    rest = {each: upto.offsets[each] for each, begin in begins.items() if begin < upto.offsets[each]}
    if not rest:
        return lost, None
    left = {each: begins[each] for each in rest}
    return lost, (Position(upto.topic_id, left, left, upto.bytes), Position(upto.topic_id, rest, left, upto.bytes))


def _is_anew(position: Position, found: Found) -> bool:
    return None not in (position.topic_id, found.topic_id) and position.topic_id != found.topic_id
