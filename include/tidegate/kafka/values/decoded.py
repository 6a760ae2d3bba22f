"""What it means to decode and encode the values of records.

Records are decoded a block at a time, and judged one by one: what is wrong with one of them says nothing of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

#: Why a record without a value is malformed.
TOMBSTONE = "it has no value: a tombstone"


@dataclass(frozen=True, slots=True)
class Misfit:
    """A record that is malformed. `record`: its place in the block. `value`: its value, or the part that is malformed
    if others are not."""

    record: int
    reason: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A block of values as columns. `records`: by row, the place of its record in the block; None if each record is one
    row, in order. `misfits`: in the order of their records."""

    columns: pa.RecordBatch
    records: npt.NDArray[np.int64] | None = None
    misfits: Sequence[Misfit] = ()


class Decoder(Protocol):
    """Decodes values into some columns, in the types in which Spark sends them to Python."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a block, in order."""
        ...


class Encoder(Protocol):
    """Encodes rows as values."""

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """Encode rows, in order. Raises `MalformedRowsError`."""
        ...
