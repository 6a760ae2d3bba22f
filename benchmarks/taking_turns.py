"""Two pipelines whose epochs take turns, each with what a store would keep of it in memory."""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import conditions
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate import FileSource, Pipeline, assembly
from tidegate.pipeline.graph import compile_graph
from tidegate.protocol.facts.records import AcknowledgeResult, HandleKind, Snapshot
from tidegate.protocol.steps.snapshot import SnapshotTask
from tidegate.settings import Settings

KEYS, ROWS = 200_000, 100_000
_REPETITIONS = 8, 15


def source_of(root: Path) -> FileSource:
    return FileSource(str(root / "landing"), format="parquet", schema="key bigint")


class Side:
    """One of the two, which keeps in memory what a store would keep."""

    def __init__(self, root: Path, pipeline: Pipeline, spark: Any) -> None:
        self.graph = compile_graph(pipeline)
        settings = Settings(root, str(root / "checkpoints"), str(root / "cache"), root / "docs")
        self.region: Any = assembly.open_region(pipeline, spark, settings)
        self.completed: dict[Any, Snapshot] = {}
        self.checkpoint_id = 0

    def take(self) -> float:
        self.checkpoint_id += 1
        taken: dict[Any, Snapshot] = {}

        def acknowledge(reported: Any) -> dict[Any, AcknowledgeResult]:
            taken.update({each.subtask: each.snapshot for each in reported})
            return {each.subtask: AcknowledgeResult.SUCCESS for each in reported}

        attempts = dict.fromkeys(self.graph.subtasks, 1)
        task = SnapshotTask(self.checkpoint_id, datetime.now(UTC), attempts, self.completed, {})
        begin = time.perf_counter()
        self.region.snapshot(task, acknowledge)
        seconds = time.perf_counter() - begin
        kept = (HandleKind.RUN, HandleKind.POSITION)
        self.completed = {
            id_: Snapshot(tuple(h for h in snapshot.handles if h.kind in kept), snapshot.position)
            for id_, snapshot in taken.items()
        }
        return seconds


def take_turns(pipeline_of: Callable[[Path, bool], Pipeline]) -> None:
    """The program's argument is the directory to work in; prints the seconds of each epoch of both as its last line.
    `pipeline_of` makes the one without and the one with what is measured."""
    root, random = Path(sys.argv[1]), np.random.default_rng(1)
    (root / "landing").mkdir()
    warm_ups, counted = conditions.repetitions(*_REPETITIONS)
    spark = conditions.spark()
    sides = [Side(root, pipeline_of(root, measured), spark) for measured in (False, True)]
    seconds: list[list[float]] = [[], []]
    for number in range(warm_ups + counted):
        keys = random.permutation(KEYS) if number == 0 else random.integers(0, KEYS, ROWS)
        pq.write_table(pa.table({"key": keys}), root / "landing" / f"{number:03}.parquet")
        for side, into in zip(sides, seconds, strict=True):
            into.append(side.take())
    sides[0].region.session.stop()
    print(json.dumps([each[warm_ups:] for each in seconds]))
