"""The contracts for decoding and encoding the values of records.

Records are decoded a block at a time and validated one by one, so a malformed record does not affect the others.
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
    """A malformed record. `record` is its place in the block, `value` its value, or only the malformed part of it."""

    record: int
    reason: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A block of values as columns. `records` has the place of each row's record in the block; None if each record is
    one row, in order. `misfits` are in the order of their records."""

    columns: pa.RecordBatch
    records: npt.NDArray[np.int64] | None = None
    misfits: Sequence[Misfit] = ()


class Decoder(Protocol):
    """Decodes values into columns, in the types in which Spark passes them to Python."""

    def decode(self, values: Sequence[bytes | None]) -> Decoded:
        """Decode a block, in order."""
        ...


class Encoder(Protocol):
    """Encodes rows as values."""

    def encode(self, rows: pa.RecordBatch) -> list[bytes | None]:
        """Encode rows, in order. Raise `MalformedRowsError`."""
        ...
