"""Pipelines without Spark whose sink is a `ParquetSink`: each checkpoint stages one row and shows it."""

from pathlib import Path
from typing import Any

from commits import commit as commit
from parquet_sinks import shown, stage
from worlds import CapturingRegion, Judge, ManualClock, SplitSource

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.ports import CheckpointStorage, CheckpointStore
from tidegate.protocol.facts.records import Acknowledgement, Snapshot
from tidegate.sinks.parquet import ParquetSink
from tidegate.state.storage import ArrowCheckpointStorage


class Owned:
    """A pipeline of this name, with its own checkpoint storage unless one is given."""

    def __init__(
        self,
        store: CheckpointStore,
        name: str,
        table: Path | str,
        mode: Any = "latest",
        storage: CheckpointStorage | None = None,
        sink: str = "t",
        retained: int = 2,
    ) -> None:
        self.store, self.name, self.clock = store, name, ManualClock()
        self.storage = storage or ArrowCheckpointStorage(str(Path(table).parent / "checkpoints"))
        self.sink_name, self.sink = sink, ParquetSink(str(table), mode)
        self.pipeline = self._defined(retained)
        self.reopen()

    def _defined(self, retained: int) -> Pipeline:
        checkpoints = CheckpointConfig("10 min", retained=retained)
        pipeline = Pipeline(self.name, parallelism=1, max_parallelism=8, checkpoints=checkpoints)
        stream = pipeline.source("src", SplitSource(1))

        @pipeline.keyed("op", inputs=[stream], key=["k"], state="k bigint, v bigint")
        def keep(batch: Any, state: Any) -> Any:
            return batch

        keep.sink(self.sink_name, self.sink)
        return pipeline

    def reopen(self) -> None:
        """Another process."""
        self.coordinator = CheckpointCoordinator(self.pipeline, self.store, self.storage, self.clock)

    def begin(self, request: str) -> int:
        """A checkpoint that has all its snapshots, with one row staged: its id."""
        outcome = self.coordinator.trigger(request)
        number = int(outcome.checkpoint_id)  # type: ignore[union-attr]

        def report(task: Any) -> list[Acknowledgement]:
            acks = []
            for key, attempt in task.attempts.items():
                handles = (stage(self.sink, number, number),) if key.operator_id == f"{self.sink_name}-sink" else ()
                acks.append(Acknowledgement(key, attempt, Snapshot(handles)))
            return acks

        self.coordinator.snapshot(number, CapturingRegion(report))
        return number

    def complete(self, number: int) -> None:
        """It passes the commit point."""
        self.coordinator.validate(number, Judge(True))
        self.coordinator.finalize(number)

    def take(self, request: str) -> int:
        number = self.begin(request)
        self.complete(number)
        self.coordinator.notify(number)
        return number

    def rows(self) -> list[int]:
        """What readers see."""
        return shown(self.sink.root if self.sink.mode == "append" else f"{self.sink.root}/current")

    def files(self) -> set[str]:
        """Everything in the table's directory."""
        return {str(path.relative_to(self.sink.root)) for path in Path(self.sink.root).rglob("*") if path.is_file()}

    def versions(self, number: int) -> list[Path]:
        """The files of one of its versions, relative to the table's directory."""
        root = Path(self.sink.root)
        return [path.relative_to(root) for path in (root / "_versions" / f"chk-{number}").iterdir()]
