"""The position of a `KafkaSource`: the offset of every partition that a split has ever seen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: A partition, the first offset to read, and the one after the last.
Range = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Position:
    """The position up to which a split has read a topic.

    Attributes:
        topic_id: The id of the topic, from brokers that have ids. A topic that was made anew has another id.
        offsets: By partition, the offset of the next record.
        began: By partition, the offset where reading began.
        bytes: The size of a record, measured by a poll; None if no poll has measured it.
    """

    topic_id: str | None = None
    offsets: Mapping[int, int] = field(default_factory=dict)
    began: Mapping[int, int] = field(default_factory=dict)
    bytes: int | None = None

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "Position":
        return cls(stored.get("topic_id"), _numbers(stored["offsets"]), _numbers(stored["began"]), stored.get("bytes"))

    def stored(self) -> dict[str, Any]:
        """Return the position as JSON, whose keys are texts."""
        content = {"topic_id": self.topic_id, "offsets": _texts(self.offsets), "began": _texts(self.began)}
        return {**content, "bytes": self.bytes}


def ranges_between(start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> list[Range]:
    """Return the ranges between two stored positions, by partition. A partition that the first position lacks was read
    from its beginning. Empty ranges are left out."""
    before, after = {} if start is None else Position.read(start).offsets, Position.read(end)
    begins = {**after.began, **before}
    return [(each, begins[each], upto) for each, upto in sorted(after.offsets.items()) if begins[each] < upto]


def pieces_of(ranges: Iterable[Range], most: int) -> list[Range]:
    """Cut ranges into pieces of at most `most` offsets, which are read in parallel."""
    return [(partition, at, min(at + most, end)) for partition, start, end in ranges for at in range(start, end, most)]


def joined(ranges: Iterable[Range]) -> list[Range]:
    """Join ranges that follow one another."""
    found: list[Range] = []
    for partition, start, end in sorted(ranges):
        if found and found[-1][0] == partition and found[-1][2] == start:
            found[-1] = (partition, found[-1][1], end)
        else:
            found.append((partition, start, end))
    return found


def merged(stored: Iterable[Mapping[str, Any]], split: int, splits: int) -> Position:
    """Return the position of a split after the number of splits was changed: the furthest offset of its partitions."""
    offsets, began, found = dict[int, int](), dict[int, int](), [Position.read(each) for each in stored]
    for position in found:
        for partition, offset in position.offsets.items():
            if is_of(partition, split, splits):
                offsets[partition] = max(offset, offsets.get(partition, offset))
                first = position.began[partition]
                began[partition] = min(first, began.get(partition, first))
    ids = [each.topic_id for each in found if each.topic_id is not None]
    return Position(
        ids[-1] if ids else None, offsets, began, max((each.bytes or 0 for each in found), default=0) or None
    )


def is_of(partition: int, split: int, splits: int) -> bool:
    """Whether a split reads a partition."""
    return partition % splits == split


def _numbers(stored: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in stored.items()}


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}
