"""One process of the measurement of the way back: does what it is asked for, and prints what it took as JSON.

The pipeline is that of workload W, and keeps some checkpoints. Each file of events is one epoch.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import conditions
from workload import SCHEMA

from tidegate import CheckpointConfig, Pipeline, assembly, count, max_, sum_
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.steps.trigger import Triggered
from tidegate.settings import Settings
from tidegate.sources.files import FileSource

PIPELINE, OPERATOR = "way_back", "totals"
_SAVEPOINTS, _LOOK_UPS = 5, 20
#: What `tidegate state` imports when it is asked for a key.
_IMPORTED = ("tidegate.embedded_postgres.locate", "tidegate.postgres.migrate", "tidegate.postgres.store",
             "tidegate.state.reading")  # fmt: skip


class Process:
    """A coordinator and a region of this process, on `root`."""

    def __init__(self, root: Path, parallelism: int) -> None:
        self._root = root
        pipeline = Pipeline(PIPELINE, parallelism=parallelism, checkpoints=CheckpointConfig(retained=3))
        events = pipeline.source("events", FileSource(str(root / "landing"), format="parquet", schema=SCHEMA))
        events.key_by("key").aggregate(OPERATOR, events=count(), total=sum_("value"), largest=max_("value"))
        settings = Settings.from_environment()  # its home is `root`
        self.coordinator = assembly.open_coordinator(pipeline, settings)
        self.region: Any = assembly.open_region(
            pipeline, conditions.spark({"spark.local.dir": str(root / "local")}), settings
        )

    def take(self, request: str, kind: CheckpointKind = CheckpointKind.CHECKPOINT) -> tuple[int, float]:
        """A checkpoint through all steps, until it is notified: its id and its seconds."""
        begin = time.perf_counter()
        outcome = self.coordinator.trigger(request, kind=kind)
        assert isinstance(outcome, Triggered), outcome
        self.coordinator.snapshot(outcome.checkpoint_id, self.region)
        self.coordinator.validate(outcome.checkpoint_id, self.region)
        self.coordinator.finalize(outcome.checkpoint_id, notifies=True)
        self.coordinator.notify(outcome.checkpoint_id)
        return outcome.checkpoint_id, time.perf_counter() - begin

    def epoch(self, file: Path) -> tuple[int, float]:
        """Let a file appear, if it has not yet, and take it."""
        landed = self._root / "landing" / file.name
        if not landed.exists():
            os.link(file, landed)
        return self.take(f"{file.name} {time.time_ns()}")


def epochs(process: Process, files: list[str]) -> dict[str, Any]:
    """An epoch of each file: the last one's checkpoint and seconds, and when it was durable."""
    taken = [process.epoch(Path(file)) for file in files][-1]
    return {"checkpoint": taken[0], "seconds": taken[1], "end": time.time()}


def restored_epoch(process: Process, file: str, checkpoint: int) -> dict[str, Any]:
    """Back to a checkpoint, then an epoch of the file that came after it."""
    begin = time.perf_counter()
    process.coordinator.restore(ToCheckpoint(checkpoint), Accepted())
    return {"restored": time.perf_counter() - begin, **epochs(process, [file])}


def savepoints(process: Process, url: str) -> dict[str, Any]:
    """Native ones, then one that is written to `url`, its bytes written by plain Spark, and a restore from it."""
    process.take("warm up")
    native = [process.take(f"savepoint {n}", CheckpointKind.SAVEPOINT) for n in range(_SAVEPOINTS)]
    exporting, savepoint = process.coordinator.exporting, native[-1][0]
    begin = time.perf_counter()
    exporting.begin(str(savepoint), url)
    record = exporting.export(savepoint, process.region)
    canonical = time.perf_counter() - begin
    session = process.region.session
    begin = time.perf_counter()
    read = session.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet").parquet(url)
    read.write.parquet(f"{url}-copied-by-spark")
    plain = time.perf_counter() - begin
    begin = time.perf_counter()
    process.coordinator.restore_from(url)
    restored = time.perf_counter() - begin
    return {
        "native": [seconds for _, seconds in native],
        "canonical": canonical,
        "bytes": record.exported_size,
        "plain": plain,
        "restored": restored,
    }


def look_ups(keys: int) -> dict[str, Any]:
    """A row by its key, as `tidegate state --key` finds it: the first one has a database and files to open. What a
    process imports for it is its start-up, and counted apart."""
    begin = time.perf_counter()
    for module in _IMPORTED:
        import_module(module)
    start_up, seconds = time.perf_counter() - begin, []
    for number in range(_LOOK_UPS):
        begin = time.perf_counter()
        found = assembly.read_state(PIPELINE, OPERATOR, key=number * keys // _LOOK_UPS).read_all()
        assert found.num_rows == 1
        seconds.append(time.perf_counter() - begin)
    return {"start_up": start_up, "seconds": seconds}


def main() -> None:
    asked = json.loads(sys.argv[1])
    step, root = asked.pop("step"), Path(asked.pop("root"))
    if step == "look_ups":
        print(json.dumps(look_ups(**asked)))
        return
    process = Process(root, asked.pop("parallelism"))
    steps: dict[str, Callable[..., dict[str, Any]]] = {
        "epochs": epochs,
        "restored_epoch": restored_epoch,
        "savepoints": savepoints,
    }
    found = steps[step](process, **asked)
    process.region.session.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
