"""Decides how far a poll of a topic goes, from the offsets that the brokers have reported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.kafka.positions import Position, Range
from tidegate.kafka.refusals import Topic


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets of a partition: the first that is left, and the one after the last committed record."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """A topic as the brokers describe it now. `topic_id` is None if they have no ids."""

    topic_id: str | None
    partitions: Mapping[int, Bounds]


@dataclass(frozen=True, slots=True)
class Polled:
    """The end of a poll, and the rows that it leaves for the next ones, by partition."""

    offsets: Mapping[int, int]
    left: Mapping[int, int]


def begin(topic: Topic, position: Position | None, found: Found, starts: Mapping[int, int] | None) -> Position:
    """Decide where a poll begins in the partitions of its split, as described by `found`. A partition that was found
    after the start is read from its first record. `starts` has the offsets of `start=`, and is used without a position.

    Raise `SourceChangedError`, `PipelineDefinitionError`."""
    if position is None:
        assert starts is not None
        for partition, offset in starts.items():
            _require_inside(topic, partition, offset, found.partitions[partition])
        return Position(found.topic_id, starts, starts)
    if None not in (position.topic_id, found.topic_id) and position.topic_id != found.topic_id:
        raise topic.made_anew()
    if missing := sorted(set(position.offsets) - set(found.partitions)):
        raise topic.fewer(missing)
    for partition, offset in sorted(position.offsets.items()):
        bounds = found.partitions[partition]
        if bounds.end < offset:
            raise topic.ends_before(partition, offset, bounds.end)
        if offset < bounds.first:
            raise topic.lost(partition, offset, bounds.first)
    new = {each: bounds.first for each, bounds in found.partitions.items() if each not in position.offsets}
    return Position(found.topic_id, {**position.offsets, **new}, {**position.began, **new}, position.bytes)


def named(topic: Topic, starts: Mapping[int, int], found: Found) -> dict[int, int]:
    """Return the offsets that `start=` names for the partitions that exist. Raise `PipelineDefinitionError`."""
    if missing := sorted(set(found.partitions) - set(starts)):
        raise topic.without_offset(missing)
    if more := sorted(set(starts) - set(found.partitions)):
        raise topic.no_such_partitions(more)
    return dict(starts)


def gone(topic: Topic, position: Position, found: Found, ranges: Sequence[Range]) -> list[Range]:
    """Return the deleted parts of ranges that were read up to a position. Raise `SourceChangedError` if the topic is
    another one."""
    ends = {each: end for each, _, end in ranges}
    begin(topic, Position(position.topic_id, ends), _as_if_nothing_was_deleted(found), None)
    firsts = {each: bounds.first for each, bounds in found.partitions.items()}
    return [(each, start, min(end, firsts[each])) for each, start, end in ranges if start < firsts[each]]


def _as_if_nothing_was_deleted(found: Found) -> Found:
    return Found(found.topic_id, {each: Bounds(0, bounds.end) for each, bounds in found.partitions.items()})


def _require_inside(topic: Topic, partition: int, offset: int, bounds: Bounds) -> None:
    if not bounds.first <= offset <= bounds.end:
        raise topic.no_such_start(partition, offset, bounds.first, bounds.end)


def bounded(begins: Mapping[int, int], ends: Mapping[int, int], limit: int | None) -> Polled:
    """Take at most `limit` rows, evenly from all partitions. One with fewer rows leaves its share to the others."""
    there = {each: ends[each] - begins[each] for each in sorted(begins)}
    taken = there if limit is None else _shared(there, limit)
    offsets = {each: begins[each] + taken[each] for each in there}
    return Polled(offsets, {each: there[each] - taken[each] for each in there})


def _shared(there: Mapping[int, int], limit: int) -> dict[int, int]:
    taken = dict.fromkeys(there, 0)
    waiting = sorted(there, key=lambda each: (there[each], each))
    for at, each in enumerate(waiting):
        taken[each] = min(there[each], -(-limit // (len(waiting) - at)))
        limit -= taken[each]
    return taken


def rows_within(max_rows: int | None, max_bytes: int | None, row_bytes: int | None) -> int | None:
    """Return how many rows a poll takes, at least one; None without a limit."""
    limits = [max_rows] if max_rows is not None else []
    if max_bytes is not None and row_bytes:
        limits.append(max_bytes // row_bytes)
    return max(1, min(limits)) if limits else None
