"""What a subtask of a windowed aggregate does with its state: takes rows into open windows, and emits those that ended.

The bounds of a window are key columns of the state. A row without a window came too late for all of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from tidegate.pipeline.windows import WINDOW_END, WINDOW_START
from tidegate.protocol.facts.records import StateHandle
from tidegate.state.columns import booleans, fixed, one_chunk
from tidegate.state.layout import HASH
from tidegate.state.runs import run_schema, writing_run
from tidegate.state.slices import merged_slices
from tidegate.state.spec import SubtaskSpec
from tidegate.state.subtask import Changed, aggregate, visible_rows


def take_in(batches: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> Changed:
    """`aggregate` for the rows that have a window; the others are counted."""
    late = 0

    def with_window() -> Iterator[pa.RecordBatch]:
        nonlocal late
        for batch in batches:
            start = batch.column(WINDOW_START)
            late += start.null_count
            yield batch.filter(start.is_valid()) if start.null_count else batch

    changed = aggregate(with_window(), spec)
    return replace(changed, rows_in=changed.rows_in + late, rows_late=late)


@dataclass(eq=False)
class EndedWindows:
    """The windows of a subtask that end at `watermark` or before: their rows, once, and then the run in which they are
    removed from its state, if there are any."""

    spec: SubtaskSpec
    watermark: int
    removed: StateHandle | None = field(default=None, init=False)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Visible rows, slice by slice. `removed` is there once they have all been taken."""
        ended = self._ended()
        first = next(ended, None)
        if first is None:
            return
        schema = run_schema(self.spec.layout, tombstones=True)
        with writing_run(self.spec, schema) as writer:
            for table in chain([first], ended):
                gone = booleans(np.ones(table.num_rows, np.bool_))
                writer.write(pa.Table.from_arrays([*table.columns, gone], schema=schema))
                yield from visible_rows(table.drop_columns([HASH]), self.spec.layout).combine_chunks().to_batches()
        self.removed = writer.handle

    def _ended(self) -> Iterator[pa.Table]:
        """With their hashes, by which a run is sorted."""
        schema = run_schema(self.spec.layout, tombstones=False)
        for table in merged_slices(self.spec, self.spec.runs, schema, keep_tombstones=False):
            ended = fixed(one_chunk(table.column(WINDOW_END))) <= self.watermark
            if ended.any():
                yield table.filter(booleans(ended))
