"""Pipelines as pages show them: real checkpoints, taken by the real coordinator on a real store, of a region that
reports figures as they are in practice, without Spark. All that comes from data can be hostile.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random
from typing import Any, TypeVar

from worlds import CapturingRegion, MemorySink, SplitSource

from tidegate.coordination.coordinator import CheckpointCoordinator
from tidegate.coordination.recovery.restore import ToCheckpoint
from tidegate.documents.restores import plan_digest, plan_document, shown_plan
from tidegate.pipeline.aggregates import count, sum_
from tidegate.pipeline.config import CheckpointConfig
from tidegate.pipeline.definition import Pipeline
from tidegate.pipeline.expectations import expect, suite
from tidegate.ports import CheckpointStorage, CheckpointStore
from tidegate.protocol.facts.errors import (
    CheckpointDeclinedError,
    CheckpointError,
    CheckpointHeldError,
    IllegalRequestError,
)
from tidegate.protocol.facts.keygroups import key_groups_of
from tidegate.protocol.facts.names import Target
from tidegate.protocol.facts.paths import checkpoint_name, directory, write_prefix
from tidegate.protocol.facts.records import (
    Acknowledgement,
    CheckpointKind,
    HandleKind,
    Pending,
    Snapshot,
    StateHandle,
    SubtaskId,
    SubtaskMetrics,
    Verdict,
)
from tidegate.protocol.facts.savepoints import Label
from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.protocol.schema.operator_state import OperatorState
from tidegate.protocol.steps.snapshot import SnapshotTask

T = TypeVar("T")

#: What a user could have put into any text that a page shows.
HOSTILE = (
    '"\'><script>document.body.dataset.owned = 1</script><img src=x onerror="document.body.dataset.owned=2">{{7*7}}'
)


def batched(values: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(values)
    while batch := list(islice(rest, size)):
        yield batch


class SteppedClock:
    """A clock that is set, and ends at the present: pages say how long ago something was."""

    def __init__(self, began: datetime) -> None:
        self.time = began

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


_STATE = "carrier STRING, route STRING, minutes BIGINT, n BIGINT"


class _Source(SplitSource):
    schema = "carrier STRING, route STRING, minutes BIGINT, delay DOUBLE, n BIGINT"

    def __init__(self, splits: int, place: str) -> None:
        super().__init__(splits)
        self._place = place

    def describe(self) -> dict[str, Any]:
        return {"type": "FileSource", "path": self._place}


class _Sink(MemorySink):
    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def describe(self) -> dict[str, Any]:
        return {"type": "ParquetSink", "path": self._place}


class _Judge:
    """Finds `unexpected` values in one column, and the share of late flights in another."""

    def __init__(self, unexpected: int, share: float, text: str) -> None:
        self._unexpected, self._share, self._text = unexpected, share, text

    def validate(self, checkpoint: Any, subtasks: Any, settled: Any = ()) -> Sequence[Verdict]:
        rows = 20_000 + checkpoint.checkpoint_id * 37
        failing = [
            {"carrier": f"C{one}{self._text}", "minutes": -one} for one in range(1, min(self._unexpected, 5) + 1)
        ]
        between = {
            "type": "expect_column_values_to_be_between", "kwargs": {"column": "minutes" + self._text, "min_value": 0},
            "success": not self._unexpected, "observed": None, "element_count": rows,
            "unexpected_count": self._unexpected, "unexpected_percent": 100 * self._unexpected / rows,
            "unexpected_samples": [row["minutes"] for row in failing] + [self._text] * bool(self._text),
            "unexpected_rows": failing, "details": None, "error": None,
        }  # fmt: skip
        mean = {
            "type": "expect_column_mean_to_be_between", "kwargs": {"column": "delay", "max_value": 60},
            "success": True, "observed": round(self._share, 3), "element_count": rows, "unexpected_count": None,
            "unexpected_percent": None, "unexpected_samples": [], "unexpected_rows": [], "details": None, "error": None,
        }  # fmt: skip
        failed = int(bool(self._unexpected))
        return [Verdict(Target.parse("sink:late_flights"), "late flights", not failed, 2, failed, (between, mean))]


class ShownKeys:
    """`ports.KeyReader` of these pipelines, whose runs are empty files: every carrier has a row, which says in words
    and figures what the checkpoint is."""

    def key_columns(self, state: OperatorState) -> Sequence[tuple[str, str]]:
        return [("carrier" + _text_of(state), "string"), ("n", "bigint")]

    def row_of(self, state: OperatorState, key: Sequence[str | None]) -> Mapping[str, Any] | None:
        if len(key) != 2 or not (key[1] or "").isdigit():
            raise IllegalRequestError(f"This is not a key of the operator: {key!r}")
        flights = len(state.runs) // 8 * 100
        return {"carrier": key[0], "n": int(key[1] or 0), "flights": flights, "note": _text_of(state)}

    def files_of(self, position: StateHandle, checkpoint_id: int) -> Sequence[tuple[str, int]]:
        text = HOSTILE if position.path.startswith("returns/") else ""
        return [(f"day-{checkpoint_id:03d}/{number}{text}.csv", 1_300_000 * number) for number in range(1, 4)]


def _text_of(state: OperatorState) -> str:
    return HOSTILE if state.pipeline_id == "returns" else ""


class ShownPipeline:
    """Two sources, two keyed operators and two sinks, one of them judged; its checkpoints are taken one by one."""

    def __init__(
        self, store: CheckpointStore, storage: CheckpointStorage, name: str = "flight_delays", *, parallelism: int = 4,
        ago: timedelta = timedelta(hours=8), text: str = "", retained: int = 5,
        hold_for: str | None = None,
    ) -> None:  # fmt: skip
        self.store, self.storage, self.name, self._text = store, storage, name, text
        self.clock = SteppedClock(datetime.now(UTC) - ago)
        self.random = Random(7)
        self._hold: dict[str, Any] = {} if hold_for is None else {"on_failure": "hold", "hold_for": hold_for}
        self.pipeline = self._pipeline(name, parallelism, CheckpointConfig("10 min", retained=retained))
        self.coordinator = CheckpointCoordinator(self.pipeline, store, storage, self.clock)

    def _pipeline(self, name: str, parallelism: int, config: CheckpointConfig) -> Pipeline:
        pipeline = Pipeline(name, parallelism=parallelism, max_parallelism=32, checkpoints=config)
        flights = pipeline.source("flights", _Source(2, f"landing/flights{self._text}/*.csv"))
        airlines = pipeline.source("airlines", _Source(1, "landing/airlines/*.csv"))
        late = suite(
            "late flights",
            expect("column_values_to_be_between", column="minutes", min_value=0, **self._hold),
            expect("column_mean_to_be_between", column="delay", max_value=60, **self._hold),
        )
        flights.sink("late_flights", _Sink(f"tables/late_flights{self._text}"), expect=late)

        @pipeline.keyed("carriers", inputs=[flights, airlines], key=["carrier"], state=_STATE)
        def carriers(batch: Any, names: Any, state: Any) -> Any:
            return batch

        routes = carriers.key_by("route").aggregate("routes", flights=count(), delay=sum_("minutes"))
        routes.sink("route_delays", _Sink("tables/route_delays"))
        return pipeline

    # -- one checkpoint, step by step
    def trigger(self, request: str = "", kind: CheckpointKind = CheckpointKind.CHECKPOINT, **label: str) -> int:
        number = self.random.randrange(10**9)
        at = self.clock.time.strftime("%Y-%m-%dT%H:%M:%S+00:00")
        request = request or f"{self.name}/scheduled__{at}/{number}"
        outcome = self.coordinator.trigger(request, kind=kind, label=Label(**label))
        return int(outcome.checkpoint_id)  # type: ignore[union-attr]

    def snapshot(self, checkpoint_id: int, *, without: Sequence[SubtaskId] = ()) -> None:
        """All subtasks acknowledge, but those without."""

        def report(task: SnapshotTask) -> None:
            for reports in batched(self._reports(task, without), 5):
                self.clock.advance(1.2 + self.random.random())
                self.coordinator.record_acknowledgements(checkpoint_id, reports)

        # With some left out the region returns too early, and the checkpoint stays in progress.
        with suppress(CheckpointDeclinedError) if without else nullcontext():
            self.coordinator.snapshot(checkpoint_id, CapturingRegion(report))

    def judge(self, checkpoint_id: int, unexpected: int = 0, share: float = 12.0) -> None:
        self.clock.advance(1.1)
        self.coordinator.validate(checkpoint_id, _Judge(unexpected, share, self._text))

    def finish(self, checkpoint_id: int) -> None:
        self.clock.advance(0.2)
        self.coordinator.finalize(checkpoint_id)
        self.clock.advance(0.6)
        self.coordinator.notify(checkpoint_id)

    def complete(self, **request: Any) -> int:
        """A whole one."""
        checkpoint_id = self.trigger(**request)
        self.snapshot(checkpoint_id)
        self.judge(checkpoint_id, share=12 + checkpoint_id % 7 + self.random.random())
        self.finish(checkpoint_id)
        return checkpoint_id

    def hold(self, unexpected: int = 17) -> int:
        """One that waits for a person, of a pipeline whose rules hold."""
        checkpoint_id = self.trigger()
        self.snapshot(checkpoint_id)
        with suppress(CheckpointHeldError):
            self.judge(checkpoint_id, unexpected, 41.5)
        return checkpoint_id

    def fail_validation(self, unexpected: int = 17) -> int:
        checkpoint_id = self.trigger()
        self.snapshot(checkpoint_id)
        try:
            self.judge(checkpoint_id, unexpected, 41.5)
        except CheckpointError:
            return checkpoint_id
        raise AssertionError("bad rows went through")

    def plan(self, plan_id: str, to: int, dag_id: str = "tidegate_restore") -> None:
        """A restore as somebody has asked for its plan, and as a DAG run has stored it: with something to accept."""
        plans = self.coordinator.operations.planned_restores
        plans.ask(plan_id, str(to), Actor(ActorKind.AIRFLOW_USER, "somebody", "10.0.0.7"), dag_id)
        document = plan_document(self.coordinator.plan_restore(ToCheckpoint(to)))
        missing = [f"landing/flights/2026-01-0{day}{self._text}.csv" for day in (3, 4)]
        document["sources"] = [{"source": "flights", "files": 12, "bytes": 48_000_000, "missing": missing}]
        stuck = {"sink": f"mail{self._text}", "can_rewind": False, "withdrawn_checkpoints": [], "files": 0, "bytes": 0}
        document["sinks"].append(stuck | {"rows": None})
        plans.store(plan_id, shown_plan(document), plan_digest(document))

    def take(self, number: int, apart: float = 600.0) -> None:
        for _ in range(number):
            self.complete()
            self.clock.advance(apart)

    # -- what a region reports
    def _reports(self, task: SnapshotTask, without: Sequence[SubtaskId]) -> Iterator[Acknowledgement]:
        for key in sorted(task.attempts, key=lambda one: ("sink" in one.operator_id, one)):
            if key not in without:
                yield self._report(task, key)

    def _report(self, task: SnapshotTask, key: SubtaskId) -> Acknowledgement:
        attempt, known = task.attempts[key], task.restored.get(key, Snapshot())
        rows = self.random.randrange(8_000, 12_000) * (4 if key.subtask_index == 1 else 1)
        carried = tuple(handle for handle in known.handles if handle.kind is not HandleKind.STAGED)
        metrics = SubtaskMetrics(
            start_delay=self.random.randrange(5, 60), alignment_duration=self.random.randrange(0, 400),
            sync_duration=self.random.randrange(2, 40), async_duration=self.random.randrange(40, 900),
            processed_bytes=rows * 13, persisted_bytes=0, rows_in=rows, rows_out=rows // 3,
        )  # fmt: skip
        if key.operator_id in ("flights", "airlines"):
            read = (known.position or {"read": 0})["read"] + rows
            name = f"day-{task.checkpoint_id:03d}{self._text}.csv"
            position = {"read": read, "until": name}
            handle = self._file(task, key, HandleKind.POSITION, 1, attempt)
            metrics = replace(metrics, rows_in=-1, rows_out=rows, alignment_duration=0)
            parts = {str(key.subtask_index): key.subtask_index} if key.operator_id == "flights" else {}
            left = Pending(key.subtask_index, "files", key.subtask_index * 1_700_000, parts)
            return Acknowledgement(key, attempt, Snapshot((*carried, handle)[-3:], position), metrics, left)
        if key.operator_id.endswith("-sink"):
            return Acknowledgement(key, attempt, Snapshot((self._staged(task, key, attempt, rows // 3),)), metrics)
        handle = self._file(task, key, HandleKind.RUN, rows, attempt)
        return Acknowledgement(key, attempt, Snapshot((*carried, handle)[-6:]), metrics)

    def _file(self, task: SnapshotTask, key: SubtaskId, kind: HandleKind, rows: int, attempt: int) -> StateHandle:
        below = directory(self.name, task.checkpoint_id)
        path = f"{write_prefix(below, key, attempt)}-{self.random.randrange(16**8):08x}{self._of_file}.parquet"
        self.storage.write(path, b"")
        groups = key_groups_of(key.subtask_index, self.pipeline.parallelism, 32) if kind is HandleKind.RUN else None
        checksum = f"{self.random.getrandbits(256):064x}"
        return StateHandle(path, kind, rows, rows * 27, checksum, task.checkpoint_id, groups)

    def _staged(self, task: SnapshotTask, key: SubtaskId, attempt: int, rows: int) -> StateHandle:
        name = f"{key.subtask_index}-{attempt}-{self.random.randrange(16**8):08x}{self._of_file}.parquet"
        path = f"_staging/{checkpoint_name(task.checkpoint_id)}/{name}"
        sink = next(vertex.sink for vertex in self.pipeline.vertices if vertex.operator_id == key.operator_id)  # type: ignore[union-attr]
        sink.staged[path] = task.checkpoint_id
        return StateHandle(path, HandleKind.STAGED, rows, rows * 19, "0" * 64, task.checkpoint_id)

    @property
    def _of_file(self) -> str:
        return self._text.replace("/", "∕")
