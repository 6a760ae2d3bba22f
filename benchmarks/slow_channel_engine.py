"""A continuous run of an operator that reads one live source and two with a backlog, counted in micro-batches.

A process of `slow_channel.py`. Its arguments are the directory to work in, the options of `CheckpointConfig` as JSON,
and how many checkpoints are counted. It prints what it saw as its last line, JSON.
"""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate import CheckpointConfig, FileSource, ParquetSink, Pipeline, assembly
from tidegate.dataflow.batch_size import BatchSize
from tidegate.dataflow.continuous_driver import ContinuousDriver
from tidegate.dataflow.elements import Aborted, Aligned, Data, Output, Released, SnapshotDue
from tidegate.dataflow.input_gate import InputGate
from tidegate.ports import Round
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.settings import Settings
from tidegate.spark.session.sessions import SparkSettings

LIVE, *LATE = SOURCES = ("live", "late_1", "late_2")
ROWS = "key bigint, file bigint, pad double"
#: A file of a backlog has more bytes than a micro-batch takes, one of the live source has few.
ROWS_OF_A_FILE = {LIVE: 500, **dict.fromkeys(LATE, 36_000)}
#: A gate takes a file of a backlog with each micro-batch, so it comes to the live channel with every second one.
ROUNDS_OF_A_LIVE_FILE = 3
#: The first checkpoint finds short queues.
WARM_UP = 1
FILES_AT_FIRST = 12
RANDOM = np.random.default_rng(1)


def pipeline_of(root: Path, options: dict[str, Any]) -> Pipeline:
    """Keeps the largest file number of each key, and writes a row to the table for each key that changed."""
    pipeline = Pipeline("slow_channel", 2, checkpoints=CheckpointConfig(**options))
    inputs = [pipeline.source(name, FileSource(str(root / name), format="parquet", schema=ROWS)) for name in SOURCES]

    @pipeline.keyed("newest", inputs=inputs, key=["key"], state="key bigint, file bigint")
    def newest(live: Any, late_1: Any, late_2: Any, state: Any) -> Any:
        from pyspark.sql import functions as F

        rows = state
        for arrived in (live, late_1, late_2):
            rows = rows.unionByName(arrived.select("key", "file"))
        return rows.groupBy("key").agg(F.max("file").alias("file"))

    newest.sink("changes", ParquetSink(str(root / "changes")))
    return pipeline


def put(root: Path, source: str, number: int) -> None:
    """A file appears as a whole."""
    rows = ROWS_OF_A_FILE[source]
    columns = {"key": RANDOM.integers(0, 1000, rows), "file": np.full(rows, number), "pad": RANDOM.random(rows)}
    path = root / f"{source}-{number}.parquet"
    pq.write_table(pa.table(columns), path)
    os.rename(path, root / source / f"{number:06}.parquet")


@dataclass
class Seen:
    """By checkpoint, the micro-batches between its barriers' injection and its end at the operator's gate, and the
    bytes that it captured in flight; `aborted` ones have no more. `waits`: micro-batches for which a live segment lay
    in its channel."""

    batches: int = 0
    begun: dict[int, int] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    captured: dict[int, int] = field(default_factory=dict)
    aborted: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    arrived: dict[int, int] = field(default_factory=dict)

    def ended(self) -> int:
        return len(self.taken) + len(self.aborted)

    def note(self, output: Output) -> None:
        match output:
            case Released(channel=0, data=data):
                self.waits.append(self.batches - self.arrived.pop(id(data)))
            case Aligned(checkpoint_id=id_):
                self.taken[id_] = self.batches - self.begun[id_]
                self.captured[id_] = sum(each.data.bytes for each in output.captured)
            case Aborted():
                self.aborted.append(output.abort.checkpoint_id)
            case Released() | SnapshotDue():
                pass

    def watch(self, root: Path) -> None:
        """Everything that the process's region does from now on. Backlogs do not get smaller meanwhile."""
        begin, advance = ContinuousDriver.begin, ContinuousDriver.advance
        offer, drain = InputGate.offer, InputGate.drain
        landed = iter(range(1, 1_000_000))

        def begin_(driver: ContinuousDriver, task: SnapshotTask) -> None:
            self.begun[task.checkpoint_id] = self.batches
            begin(driver, task)

        def advance_(driver: ContinuousDriver, polls: bool = True) -> Round:
            number = next(landed)
            if number % ROUNDS_OF_A_LIVE_FILE == 0:
                put(root, LIVE, number)
            put(root, LATE[number % len(LATE)], number + FILES_AT_FIRST)
            return advance(driver, polls)

        def offer_(gate: InputGate, channel: int, data: Data) -> None:
            if len(gate.channels) == len(SOURCES) and channel == 0:
                self.arrived[id(data)] = self.batches
            offer(gate, channel, data)

        def drain_(gate: InputGate, max_bytes: int | None = None) -> list[Output]:
            outputs = drain(gate, max_bytes)
            if len(gate.channels) == len(SOURCES):
                for output in outputs:
                    self.note(output)
                self.batches += any(isinstance(output, Released) for output in outputs)
            return outputs

        for owner, name, watched in (
            (ContinuousDriver, "begin", begin_),
            (ContinuousDriver, "advance", advance_),
            (InputGate, "offer", offer_),
            (InputGate, "drain", drain_),
        ):
            setattr(owner, name, watched)


def main() -> None:
    root, options, checkpoints = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    for source in SOURCES:
        (root / source).mkdir(parents=True)
        for number in range(0 if source == LIVE else FILES_AT_FIRST):
            put(root, source, number)
    seen = Seen()
    seen.watch(root)
    settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
    run = assembly.open_continuous(pipeline_of(root, options), SparkSettings.local(2), settings)
    # A micro-batch of one size, whatever the machine does meanwhile: all runs have the same queues.
    with patch.object(BatchSize, "took"):
        run.run(lambda: seen.ended() >= checkpoints + WARM_UP)
    counted = sorted(seen.taken)[WARM_UP:] if seen.taken else []
    print(
        json.dumps(
            {
                "completed": len(seen.taken),
                "aborted": len(seen.aborted),
                "micro-batches of a checkpoint": [seen.taken[id_] for id_ in counted],
                "bytes in flight": [seen.captured[id_] for id_ in counted],
                "micro-batches that a live segment waits": seen.waits[len(seen.waits) // 4 :],
            }
        )
    )


if __name__ == "__main__":
    main()
