"""A pipeline without Spark that writes three tables: each checkpoint stages a row in each, its own id."""

from pathlib import Path
from typing import Any

from parquet_sinks import stage
from worlds import CapturingRegion, Judge, ShiftedClock, SplitSource

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import CheckpointStore, SinkInput
from tidegate.protocol.facts.records import Acknowledgement, Snapshot
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.sinks.parquet import ParquetSink
from tidegate.state.storage import ArrowCheckpointStorage


class SeveralTables:
    """`events` and `merged` are appended to, of the latter there are few files, too; `now` has the current rows. `more`
    are other sinks, by name."""

    def __init__(
        self, store: CheckpointStore, home: Path, retained: int = 3, readable_for: str = "5 min", **more: Any
    ) -> None:
        self.store, self.storage = store, ArrowCheckpointStorage(str(home / "checkpoints"))
        self._defined_sinks = {
            "events": ParquetSink("tables/events"),
            "merged": ParquetSink("tables/merged", merge=True, readable_for=readable_for),
            "now": ParquetSink("tables/now", "latest", readable_for=readable_for),
            **more,
        }
        self.retained = retained
        self.number = 0
        self.reopen()

    def reopen(self) -> None:
        """Another process, which may have other sinks."""
        self.pipeline = self._defined()
        self.sinks: dict[str, Any] = {v.name: v.sink for v in self.pipeline.vertices if isinstance(v, SinkVertex)}
        self.coordinator = CheckpointCoordinator(self.pipeline, self.store, self.storage, ShiftedClock())

    def _defined(self) -> Pipeline:
        checkpoints = CheckpointConfig("10 min", retained=self.retained)
        pipeline = Pipeline("shop", parallelism=1, max_parallelism=8, checkpoints=checkpoints)
        stream = pipeline.source("src", SplitSource(1))

        @pipeline.keyed("op", inputs=[stream], key=["k"], state="k bigint, v bigint")
        def keep(batch: Any, state: Any) -> Any:
            return batch

        changed = keep.transform(str, deterministic=False, name="changed")  # rows by any key, which never leave tables
        for name, sink in self._defined_sinks.items():
            (changed if sink.input is SinkInput.UPSERTS else keep).sink(name, sink)
        return pipeline

    def finalize(self, *empty: str) -> int:
        """A checkpoint that has completed, and no sink was told: its id. The sinks named stage nothing."""
        self.number += 1
        outcome: Any = self.coordinator.trigger(f"r{self.number}")
        id_ = int(outcome.checkpoint_id)

        def staged(operator_id: str) -> tuple[Any, ...]:
            name = operator_id.removesuffix("-sink")
            return (stage(self.sinks[name], id_, id_),) if name in self.sinks and name not in empty else ()

        def report(task: Any) -> list[Acknowledgement]:
            return [
                Acknowledgement(key, attempt, Snapshot(staged(key.operator_id)))
                for key, attempt in task.attempts.items()
            ]

        self.coordinator.snapshot(id_, CapturingRegion(report))
        self.coordinator.validate(id_, Judge(True))
        self.coordinator.finalize(id_)
        return id_

    def take(self, *empty: str) -> int:
        id_ = self.finalize(*empty)
        self.coordinator.notify(id_)
        return id_

    def restore(self, checkpoint_id: int | None = None) -> None:
        """To the checkpoint, or undo the last one."""
        target = Undo() if checkpoint_id is None else ToCheckpoint(checkpoint_id)
        self.coordinator.restore(target, Accepted())

    def block(self, name: str) -> None:
        """From here on the sink can show nothing new: something lies where it prepares that."""
        where = Path(self.sinks[name].root, "_committing")
        if where.exists():
            where.rename(where.with_name("_aside"))
        where.touch()

    def unblock(self, name: str) -> None:
        Path(self.sinks[name].root, "_committing").unlink()


def values(tables: Any) -> dict[str, list[int]]:
    """The rows of `tidegate.read`, in order."""
    return {name: sorted(table["v"].to_pylist()) for name, table in tables.arrow().items()}
