"""The parts of a record apart from its value, as columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from tidegate.kafka.values.byte_values import binaries, mask
from tidegate.sources.arrow_columns import integers, strings

if TYPE_CHECKING:
    Numbers = npt.NDArray[np.int64]

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])


@dataclass(frozen=True, slots=True)
class Block:
    """Some records of a topic, with their places."""

    messages: Sequence[Message]
    partitions: "Numbers"
    offsets: "Numbers"

    def values(self) -> list[bytes | None]:
        return list(map(Message.value, self.messages))

    def taken(self, places: "Numbers") -> "Block":
        """Return the records at some places of this block, in that order. A place may occur several times."""
        messages = [self.messages[place] for place in places.tolist()]
        return Block(messages, self.partitions[places], self.offsets[places])

    def column(self, what: str) -> pa.Array:
        """Return a column of one kind of `metadata`."""
        return _COLUMNS[what](self)


def _topics(block: Block) -> pa.Array:
    return strings(map(Message.topic, block.messages))


def _times(block: Block) -> pa.Array:
    """Return the times of the producer or the broker, as the topic is configured."""
    times = list(map(Message.timestamp, block.messages))
    millis = np.fromiter((time for _, time in times), np.int64, len(times))
    valid = [kind != TIMESTAMP_NOT_AVAILABLE for kind, _ in times]
    buffers = [None if all(valid) else mask(valid), pa.py_buffer(millis * 1_000)]
    return pa.Array.from_buffers(pa.timestamp("us", "UTC"), len(times), buffers)


def _headers(block: Block) -> pa.Array:
    """Return the headers; null where there are none, as in Spark."""
    found = [message.headers() or None for message in block.messages]
    flat = list(chain.from_iterable(headers for headers in found if headers is not None))
    inner = pa.StructArray.from_arrays(
        [strings(str(key) for key, _ in flat), binaries([_bytes(value) for _, value in flat])], fields=list(_HEADER)
    )
    offsets = np.zeros(len(found) + 1, np.int32)
    np.cumsum([len(headers or ()) for headers in found], out=offsets[1:])
    buffers = [mask([headers is not None for headers in found]), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(_HEADER), len(found), buffers, children=[inner])


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


_COLUMNS: dict[str, Callable[[Block], pa.Array]] = {
    "key": lambda block: binaries(list(map(Message.key, block.messages))),
    "timestamp": _times,
    "partition": lambda block: integers(block.partitions).cast(pa.int32()),
    "offset": lambda block: integers(block.offsets),
    "headers": _headers,
    "topic": _topics,
}
