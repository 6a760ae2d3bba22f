"""Values as a single column of bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from tidegate.kafka.values.decoded import Decoded


def binaries(values: Sequence[bytes | None]) -> pa.BinaryArray:
    """Return a column of bytes. Faster than `pa.array`, which inspects each value and imports pandas."""
    valid, present = None, cast("Sequence[bytes]", values)
    try:
        data = b"".join(present)
    except TypeError:  # there is a null
        valid = mask([value is not None for value in values])
        present = [value or b"" for value in values]
        data = b"".join(present)
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, present), np.int32, len(present)), out=offsets[1:])
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def mask(valid: Sequence[bool]) -> pa.Buffer:
    """Return Arrow's validity bits."""
    return pa.py_buffer(np.packbits(np.array(valid, np.bool_), bitorder="little"))


@dataclass(frozen=True, slots=True)
class Bytes:
    """See `Decoder` and `Encoder`. A tombstone is null. `name` is that of the column."""

    name: str

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        return Decoded(pa.RecordBatch.from_arrays([binaries(values)], names=[self.name]))

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        values: list[bytes | None] = rows.column(self.name).to_pylist()
        return values
