"""A pipeline without Spark whose sinks are tables in Postgres or Iceberg: its coordinator, its store and its sinks are
real, and the rows of a checkpoint are what a test says."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import pyarrow as pa
from worlds import CapturingRegion, Judge, ShiftedClock, SplitSource

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.vertices import SinkVertex
from tidegate.ports import CheckpointStore, StageContext
from tidegate.protocol.facts.records import Acknowledgement, Snapshot
from tidegate.protocol.recovery.restore_plan import Accepted, RestorePlan
from tidegate.state.storage import ArrowCheckpointStorage


class Server:
    """A database as its owner, or a stranger, sees it."""

    def __init__(self, url: str) -> None:
        self.url = url.replace("+psycopg2", "")

    @contextmanager
    def session(self) -> Iterator[Any]:
        """A cursor; what it does is committed by the caller, or never."""
        connection = psycopg2.connect(self.url, options="-c search_path=public")  # the owner has a schema of its name
        try:
            with connection.cursor() as cursor:
                yield cursor
        finally:
            connection.close()

    def do(self, *statements: str) -> None:
        with self.session() as cursor:
            for statement in statements:
                cursor.execute(statement)
            cursor.connection.commit()

    def alone(self, *statements: str) -> None:
        """Those that are no part of a transaction."""
        with self.session() as cursor:
            cursor.connection.autocommit = True
            for statement in statements:
                cursor.execute(statement)

    def rows(self, question: str) -> list[Any]:
        """A value for each row if it has one column, else tuples."""
        with self.session() as cursor:
            cursor.execute(question)
            return [row[0] if len(row) == 1 else row for row in cursor.fetchall()]

    def loaded_tables(self) -> list[str]:
        return self.rows("SELECT relname FROM pg_class WHERE relname LIKE 'loaded\\_%' AND relkind = 'r'")


class Mart:
    """Each checkpoint stages, for each sink, the table of rows that `take` is given; by default a column `v` with the
    checkpoint's own id."""

    def __init__(self, store: CheckpointStore, home: Path, name: str = "mart", retained: int = 9, **sinks: Any) -> None:
        self.store, self.name, self.retained, self._defined_sinks = store, name, retained, sinks
        self._storage = ArrowCheckpointStorage(str(home / ".tidegate" / "checkpoints"))
        self.reopen()

    def reopen(self) -> None:
        """Another process."""
        self.pipeline = self._defined()
        self.sinks = {vertex.name: vertex.sink for vertex in self.pipeline.vertices if isinstance(vertex, SinkVertex)}
        self.coordinator = CheckpointCoordinator(self.pipeline, self.store, self._storage, ShiftedClock())

    def _defined(self) -> Pipeline:
        checkpoints = CheckpointConfig("10 min", retained=self.retained)
        pipeline = Pipeline(self.name, parallelism=1, max_parallelism=8, checkpoints=checkpoints)

        @pipeline.keyed("op", inputs=[pipeline.source("src", SplitSource(1))], key=["k"], state="k bigint, v bigint")
        def keep(batch: Any, state: Any) -> Any:
            return batch

        for name, sink in self._defined_sinks.items():
            keep.sink(name, sink)
        return pipeline

    def validated(self, **rows: pa.Table) -> int:
        """The id of a checkpoint that has only to be finalized."""
        outcome: Any = self.coordinator.trigger(uuid4().hex)
        id_ = int(outcome.checkpoint_id)

        def staged(operator_id: str, attempt: int) -> tuple[Any, ...]:
            name = operator_id.removesuffix("-sink")
            if name not in self.sinks:
                return ()
            table = rows.get(name, pa.table({"v": pa.array([id_], pa.int64())}))
            return tuple(self.sinks[name].writer().stage(table, StageContext(id_, 0, attempt, "u")))

        def report(task: Any) -> list[Acknowledgement]:
            return [
                Acknowledgement(key, attempt, Snapshot(staged(key.operator_id, attempt)))
                for key, attempt in task.attempts.items()
            ]

        self.coordinator.snapshot(id_, CapturingRegion(report))
        self.coordinator.validate(id_, Judge(True))
        return id_

    def finalize(self, **rows: pa.Table) -> int:
        """A checkpoint that has completed, and whose sinks after the commit were not told."""
        id_ = self.validated(**rows)
        self.coordinator.finalize(id_)
        return id_

    def take(self, **rows: pa.Table) -> int:
        id_ = self.finalize(**rows)
        self.coordinator.notify(id_)
        return id_

    def restore(self, checkpoint_id: int | None = None) -> RestorePlan:
        """To the checkpoint, or undo the last one."""
        target = Undo() if checkpoint_id is None else ToCheckpoint(checkpoint_id)
        return self.coordinator.restore(target, Accepted())

    def status(self, checkpoint_id: int) -> str:
        record = self.store.checkpoint(self.name, checkpoint_id)
        assert record is not None
        return record.status.value


def values(*given: Any, name: str = "v", kind: pa.DataType | None = None) -> pa.Table:
    return pa.table({name: pa.array(given, kind or pa.int64())})
