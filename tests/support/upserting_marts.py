"""A pipeline on Spark whose state two tables in Postgres have: one in the commit, the other in another database."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from listed import Listed
from marts import Server
from pyspark.sql import functions as F
from worlds import Judge

from tidegate import CheckpointConfig, Pipeline, PostgresSink
from tidegate.clock import SystemClock
from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint, Undo
from tidegate.pipeline.graph import compile_graph
from tidegate.ports import CheckpointStore
from tidegate.protocol.facts.records import CheckpointKind
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.recovery.restore_plan import Accepted
from tidegate.protocol.steps.sink_marks import is_whole
from tidegate.settings import Settings
from tidegate.spark.region import SparkRegion
from tidegate.state.storage import ArrowCheckpointStorage


class UpsertingMarts:
    """`put` lists events for the next checkpoint: of a key the largest counts, and a negative one deletes it. `state`
    is what the tables are to have. Each process may have other sinks: see `reopen`."""

    SCHEMA = "k string, v bigint"
    parallelism = 1

    def __init__(self, spark: Any, store: CheckpointStore, home: Path, here: Server, there: Server) -> None:
        self._spark, self._store, self._home = spark, store, home
        self.servers = {"mart": here, "far": there}
        self.source, self.state = Listed(self.SCHEMA, step=100), dict[Any, Any]()
        self.states = dict[int, dict[Any, Any]]()
        self.reopen(**self.sinks())

    def sinks(self) -> dict[str, Any]:
        return {
            "mart": PostgresSink("mart", "upsert", key="k"),
            "far": PostgresSink("far", "upsert", key="k", connection="marts"),
        }

    def reopen(self, **sinks: Any) -> None:
        """A process whose definition has these sinks."""
        checkpoints = CheckpointConfig(retained=9)
        pipeline = Pipeline("marts", parallelism=self.parallelism, max_parallelism=4, checkpoints=checkpoints)
        self.define(pipeline, sinks)
        self.storage = ArrowCheckpointStorage(str(self._home / ".tidegate" / "checkpoints"))
        settings = Settings(self._home, self.storage.url, str(self._home / "cache"), self._home / "docs")
        graph = compile_graph(pipeline)
        self.region = SparkRegion(graph, self._spark, self.storage, SystemClock(), settings)
        self.coordinator = CheckpointCoordinator(pipeline, self._store, self.storage, SystemClock())

    def define(self, pipeline: Pipeline, sinks: Mapping[str, Any]) -> None:
        events = pipeline.source("events", self.source)

        @pipeline.keyed("kept", inputs=[events], key=["k"], state="k string, v bigint")
        def keep(events: Any, state: Any) -> Any:
            return events.groupBy("k").agg(F.max_by("v", F.abs("v")).alias("v")).withColumn("_delete", F.col("v") < 0)

        for name, sink in sinks.items():
            self.shown(keep).sink(name, sink)

    def shown(self, state: Any) -> Any:
        """What the sinks are given of it."""
        return state

    def put(self, **values: Any) -> None:
        for event in values.items():
            self.source.put(0, event)

    def validated(self, **how: Any) -> int:
        outcome: Any = self.coordinator.trigger(uuid4().hex, **how)
        id_ = int(outcome.checkpoint_id)
        self.coordinator.snapshot(id_, self.region)
        self.coordinator.validate(id_, Judge("missing"))
        return id_

    def take(self, **values: Any) -> int:
        self.put(**values)
        id_ = self.validated()
        self.coordinator.finalize(id_)
        self.coordinator.notify(id_)
        self.state = self.states[id_] = self.upserted()
        return id_

    def upserted(self) -> dict[Any, Any]:
        newest: dict[str, int] = {}
        for k, v in self.source.all():
            newest[k] = max(v, newest.get(k, 0), key=abs)
        return {k: v for k, v in newest.items() if v >= 0}

    def save(self, location: str) -> None:
        """A savepoint with a directory of its own."""
        id_ = self.validated(kind=CheckpointKind.SAVEPOINT, label=Label("kept"))
        self.coordinator.finalize(id_)
        self.coordinator.notify(id_)
        self.states[id_] = self.state
        begun = self.coordinator.exporting.begin("kept", location)
        self.coordinator.exporting.export(begun.checkpoint_id, self.region)

    def import_(self, location: str) -> None:
        plan = self.coordinator.restore_from(location)
        self.state = self.states[plan.restore.checkpoint.checkpoint_id]

    def restore(self, checkpoint_id: int | None = None) -> None:
        """To the checkpoint, or undo the last one. Tables of sinks that are no part of the pipeline stay as they are.
        Events since then are read again."""
        target = Undo() if checkpoint_id is None else ToCheckpoint(checkpoint_id)
        plan = self.coordinator.plan_restore(target)
        stay = [each.sink for each in plan.sinks if not each.can_rewind]
        self.coordinator.restore(target, Accepted(leave=stay), plan)
        self.state = self.states[plan.checkpoint.checkpoint_id]

    def whole(self, checkpoint_id: int) -> set[str]:
        """The sinks that were given all rows."""
        subtasks = self._store.subtasks("marts", checkpoint_id)
        return {
            id_.operator_id.removesuffix("-sink") for id_, known in subtasks.items() if is_whole(known.snapshot.handles)
        }

    def planned(self) -> set[str]:
        """The sinks of which the plan says that they will be."""
        changes = self.coordinator.planning.plan().vertices
        return {each.name for each in changes if any("is given all rows" in said for said in each.changes)}

    def rows(self, name: str) -> dict[Any, Any]:
        return dict(self.servers[name].rows(f"SELECT k, v FROM {name}"))  # noqa: S608

    def check(self) -> None:
        for name in self.servers:
            found = self.rows(name)
            assert found == self.state, (name, found, self.state)
