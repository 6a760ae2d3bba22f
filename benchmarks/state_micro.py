"""Keyed state alone, one subtask, without Spark: seconds of load, epochs, scan and compaction.

Run: python benchmarks/state_micro.py [keys] [events] [epochs]
"""

import shutil
import sys
import tempfile
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidegate.pipeline.aggregates import count, max_, sum_
from tidegate.protocol.facts.keygroups import key_groups_of
from tidegate.protocol.facts.records import StateHandle
from tidegate.state.compaction import compact, plan_compaction
from tidegate.state.hashing import spark_hash
from tidegate.state.layout import StateLayout
from tidegate.state.subtask import Changed, SubtaskSpec, aggregate, scan

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
LAYOUT = StateLayout.of_aggregates(SCHEMA, ["k"], [("n", count()), ("total", sum_("v")), ("top", max_("v"))])


def batches_of(keys: np.ndarray, values: np.ndarray, size: int = 10_000) -> list[pa.RecordBatch]:
    table = pa.table({"k": keys, "v": values})
    table = table.add_column(0, "_hash", spark_hash([table.column("k").combine_chunks()]))
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=size)
    return batches


def written(changed: Changed) -> StateHandle:
    handle = changed.write()
    assert handle is not None
    return handle


def compacted(spec: SubtaskSpec) -> tuple[StateHandle, ...]:
    chosen = plan_compaction(spec)
    if not chosen:
        return spec.runs
    began = time.perf_counter()
    merged = compact(spec, chosen)
    print(
        f"  compacted {len(chosen)} of {len(spec.runs)} runs, {merged.rows:,} rows: {time.perf_counter() - began:.3f} s"
    )
    at = spec.runs.index(chosen[0])
    return (*spec.runs[:at], merged, *spec.runs[at + len(chosen) :])


def main(keys: int, events: int, epochs: int, root: str) -> None:
    rng = np.random.default_rng(7)
    spec = SubtaskSpec(f"{root}/state", f"{root}/cache", "w", "bench", 0, "w/0", key_groups_of(0, 1, 128), 128, LAYOUT)
    incoming = batches_of(rng.permutation(keys), rng.integers(0, 1000, keys))
    began = time.perf_counter()
    run = written(aggregate(incoming, spec))
    print(f"load {keys:,}: {time.perf_counter() - began:.3f} s, {run.bytes:,} bytes")
    runs: tuple[StateHandle, ...] = (run,)
    for epoch in range(1, epochs + 1):
        spec = replace(spec, checkpoint_id=epoch, prefix=f"w/{epoch}", runs=runs)
        incoming = batches_of(rng.integers(0, keys, events), rng.integers(0, 1000, events))
        began = time.perf_counter()
        changed = aggregate(incoming, spec)
        run = written(changed)
        print(
            f"epoch {epoch}: {events:,} events over {len(runs)} runs: {time.perf_counter() - began:.4f} s "
            f"(sync {changed.sync_ms} ms, {run.bytes:,} bytes)"
        )
        runs = compacted(replace(spec, prefix=f"w/{epoch}-merged", runs=(*runs, run)))
    began = time.perf_counter()
    rows = sum(batch.num_rows for batch in scan(replace(spec, runs=runs)))
    print(f"scan of {rows:,} rows over {len(runs)} runs: {time.perf_counter() - began:.3f} s")
    shutil.rmtree(f"{root}/cache", ignore_errors=True)  # small runs have none
    began = time.perf_counter()
    written(aggregate(incoming, replace(spec, prefix="w/restart", runs=runs)))
    print(f"epoch after the cache was lost: {time.perf_counter() - began:.3f} s")


if __name__ == "__main__":
    sizes = [int(argument) for argument in sys.argv[1:]] + [5_000_000, 500_000, 10][len(sys.argv) - 1 :]
    with tempfile.TemporaryDirectory() as directory:
        number_of_keys, events_an_epoch, number_of_epochs = sizes
        main(number_of_keys, events_an_epoch, number_of_epochs, directory)
