"""A process that commits a checkpoint's rows and stops itself (SIGSTOP) right before they would become visible."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from driver import Killable
from worlds import Judge, small_pipeline

from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.ports import CheckpointStore, Clock, StageContext
from tidegate.postgres.engine import connect
from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.protocol.facts.records import Acknowledgement, Snapshot
from tidegate.sinks.parquet import ParquetSink
from tidegate.state.storage import ArrowCheckpointStorage

NAME = "p"


def pipeline_of(home: str, mode: Any) -> tuple[ParquetSink, Any]:
    sink = ParquetSink(f"{home}/table", mode)
    return sink, small_pipeline(sink, NAME)  # type: ignore[arg-type]


class Staging:
    """A region without Spark: every subtask of the sink stages one row, the checkpoint's id."""

    def __init__(self, sink: ParquetSink) -> None:
        self._sink = sink

    def snapshot(self, task: Any, acknowledge: Any) -> None:
        acknowledge([self._taken(task, subtask, attempt) for subtask, attempt in task.attempts.items()])

    def _taken(self, task: Any, subtask: Any, attempt: int) -> Acknowledgement:
        handles = ()
        if subtask.operator_id == "out-sink":
            rows = pa.table({"k": pa.array([task.checkpoint_id], pa.int64())})
            context = StageContext(task.checkpoint_id, subtask.subtask_index, attempt, "u")
            handles = tuple(self._sink.writer().stage(rows, context))
        return Acknowledgement(subtask, attempt, Snapshot(handles))

    def compact(self, checkpoint_id: int, snapshots: Any) -> list[Any]:
        return []

    def frame(self, target: str, subtasks: Any, record: Any) -> None:
        return None


class Committing:
    """Checkpoints of a pipeline with one `ParquetSink`."""

    def __init__(self, home: str, mode: str, store: CheckpointStore, clock: Clock) -> None:
        self.sink, pipeline = pipeline_of(home, mode)
        self.coordinator = CheckpointCoordinator(pipeline, store, ArrowCheckpointStorage(f"{home}/checkpoints"), clock)

    def complete(self, request: str) -> int:
        """Everything but the notify step."""
        checkpoint_id: int = self.coordinator.trigger(request).checkpoint_id  # type: ignore[union-attr]
        self.coordinator.snapshot(checkpoint_id, Staging(self.sink))
        self.coordinator.validate(checkpoint_id, Judge(True))
        self.coordinator.finalize(checkpoint_id)
        return checkpoint_id


def main(home: str, database_url: str, mode: str) -> None:
    """Stops at the rename that readers would notice."""
    committing = Committing(home, mode, PostgresCheckpointStore(connect(database_url)), SystemClock())
    checkpoint_id = committing.complete("stopped")
    visible = os.path.join(committing.sink.root, "current" if mode == "latest" else f"checkpoint={checkpoint_id}")
    rename, replace = os.rename, os.replace

    def stopping(step: Any) -> Any:
        def call(source: str, target: str) -> None:
            if target == visible:
                os.kill(os.getpid(), signal.SIGSTOP)
            step(source, target)

        return call

    os.rename, os.replace = stopping(rename), stopping(replace)
    committing.coordinator.notify(checkpoint_id)


class StoppingDriver(Killable):
    """Stops in the middle of the commit of checkpoint 1."""

    def __init__(self, home: Path, database_url: str, mode: str) -> None:
        super().__init__(__file__, home, [database_url, mode], {})

    def wait_stopped(self) -> None:
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), self.log()


if __name__ == "__main__":
    main(*sys.argv[1:])
