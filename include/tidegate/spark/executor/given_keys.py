"""Refusal of rows whose keys a function over state did not receive. It has not seen the state of these keys, and would
replace it blindly.

In addition to the rows of the function, there is a row for each key of its batches, which has a hash and `GIVEN`. Keys
are compared by their hash. Two keys with the same hash count as one here, which lets a wrong row pass and refuses no
right one.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from tidegate.protocol.facts.errors import CheckpointDeclinedError
from tidegate.state.columns import booleans, flags, hashes_of_column, one_chunk
from tidegate.state.layout import HASH
from tidegate.state.showing import key_text
from tidegate.state.spec import SubtaskSpec

#: The column that is true in a marker row for a key of a batch.
GIVEN = "_given"


def returned_rows(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> list[pa.RecordBatch]:
    """Return the result of a subtask's function without the marker rows.

    Raise `CheckpointDeclinedError` for a row whose key was in none of its batches.
    """
    table = pa.Table.from_batches(batches)
    is_given = flags(one_chunk(table.column(GIVEN)))
    rows = table.filter(booleans(~is_given)).drop_columns([GIVEN])
    hashes = hashes_of_column(table.column(HASH))
    foreign = np.flatnonzero(~np.isin(hashes[~is_given], hashes[is_given]))
    if len(foreign):
        key = key_text(rows.select(spec.layout.key_names), int(foreign[0]))
        raise CheckpointDeclinedError(
            f"The update function of {spec.where()}, returned rows for {len(foreign)} keys that none of its batches "
            f"has, such as {key}. It receives the state of its batches' keys only, so such a row would replace the "
            "state of its key unseen. Nothing was written and the previous checkpoint stands. Give the operator "
            "an input that has these keys, or emit such rows with an output and key them behind it."
        )
    return [batch for batch in rows.to_batches() if batch.num_rows]
