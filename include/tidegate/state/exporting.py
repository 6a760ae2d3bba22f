"""Export of a subtask's state as one complete run to another place, for a canonical savepoint."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidegate.protocol.facts.errors import SavepointEditError
from tidegate.protocol.facts.keygroups import covering
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.recovery.canonical import Rewrite
from tidegate.state.arrivals import arrange, gather
from tidegate.state.columns import booleans, flags, hashes_of_column, integers
from tidegate.state.expiring import Span
from tidegate.state.layout import DELETE, StateLayout
from tidegate.state.opening import RunPart, read_layout
from tidegate.state.runs import newest_of, run_schema, writing_run
from tidegate.state.showing import key_text
from tidegate.state.slices import merged_slices
from tidegate.state.spec import SubtaskSpec


def rewrite_state(
    rewrite: Rewrite,
    pipeline: str,
    checkpoint_id: int,
    storage_url: str,
    location: str,
    cache_dir: str | None,
    layout: StateLayout | None = None,
    changes: Iterable[pa.RecordBatch] = (),
) -> StateHandle:
    """Merge all runs of a subtask into one below `location`, in bounded memory and without tombstones.

    The layout is by default that of the newest run, so the definition is not needed. `changes` replace rows, or delete
    those whose `_delete` is true; their columns are `_hash`, those of the layout, and `_delete`. Raise
    `StateIntegrityError`, `StorageError`, and `SavepointEditError` if two changes have the same key.
    """
    where = f"operator {rewrite.subtask.operator_id} of pipeline {pipeline}, checkpoint {checkpoint_id}"
    target = SubtaskSpec(
        storage_url=location,
        cache_dir=cache_dir,
        operator=rewrite.subtask.operator_id,
        pipeline=pipeline,
        checkpoint_id=checkpoint_id,
        prefix=rewrite.path,
        key_groups=rewrite.key_groups,
        max_parallelism=rewrite.max_parallelism,
        layout=layout or read_layout(storage_url, where, newest_of(rewrite.runs)),
    )
    former = rewrite.former or rewrite.max_parallelism
    groups = covering(rewrite.key_groups, rewrite.max_parallelism, former)
    source = replace(target, storage_url=storage_url, key_groups=groups, max_parallelism=former)
    schema = run_schema(target.layout, False)
    merged = merged_slices(source, rewrite.runs, schema, False, _arranged(changes, target))
    with writing_run(target, schema, Span.merging(target, rewrite.runs)) as writer:
        for table in merged:
            writer.write(_own(table, target))
    return writer.handle


def _arranged(changes: Iterable[pa.RecordBatch], spec: SubtaskSpec) -> list[RunPart]:
    """Return the changes as a run that is newer than all others."""
    names = spec.layout.stored.names
    table = gather(changes, [*names, DELETE], spec)
    if table is None:
        return []
    arrivals = arrange(table, spec)
    if not arrivals.groups.single:
        group = int(np.argmax(arrivals.groups.sizes))
        key = key_text(arrivals.first_rows(spec.layout.key_names), group)
        raise SavepointEditError(
            f"The rows and keys given for operator {spec.operator} of pipeline {spec.pipeline} name the key "
            f"{key} {arrivals.groups.sizes[group]} times. Each key may be given once, to be replaced or to be removed. "
            "Nothing was written."
        )
    columns = [integers(arrivals.hashes), *arrivals.first_rows(names).columns]
    columns.append(booleans(flags(arrivals.sorted_column(DELETE))))
    rows = pa.Table.from_arrays(columns, schema=run_schema(spec.layout, True)).combine_chunks()
    return [RunPart(hashes_of_column(rows.column(0)), batch) for batch in rows.to_batches()]


def _own(table: pa.Table, spec: SubtaskSpec) -> pa.Table:
    """Return the subtask's rows of a table sorted by hash. Another number of key groups has other bounds."""
    low, high = spec.hashes()
    hashes = hashes_of_column(table.column(0))
    start = int(np.searchsorted(hashes, np.uint64(low), side="left"))
    stop = int(np.searchsorted(hashes, np.uint64(high), side="right"))
    return table.slice(start, stop - start)
