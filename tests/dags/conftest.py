"""Fixtures of the Airflow layer's tests: a real database, and Airflow's own task runner without its server."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import airflow_home  # noqa: F401 - before anything imports Airflow
import pytest
import structlog
from dag_steps import judge
from worlds import MemorySink, small_pipeline

from tidegate.airflow import checkpoint_dag
from tidegate.assembly import open_store
from tidegate.pipeline.definition import Pipeline
from tidegate.protocol.facts.records import Acknowledgement, HandleKind, Snapshot, StateHandle


@pytest.fixture
def database(postgres_url, tmp_path, monkeypatch) -> str:
    """The URL of a database of its own, which the code under test finds by itself, as it does the storage."""
    monkeypatch.setenv("TIDEGATE_DATABASE_URL", postgres_url)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_STORAGE", str(tmp_path / "checkpoints"))
    return postgres_url


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def pipeline(sink) -> Pipeline:
    return small_pipeline(sink)


class InProcessRegion:
    """Acknowledges what it is asked for, with one staged file of three rows a sink's subtask. `session` only records
    that it was stopped. `before` is called first and may raise."""

    def __init__(self, sink: MemorySink, before: Callable[[], None]) -> None:
        self.session = RecordedSession()
        self.attempts: list[int] = []
        self._sink = sink
        self._before = before

    def snapshot(self, task: Any, acknowledge: Any) -> None:
        self.attempts.append(max(task.attempts.values()))
        self._before()
        acknowledge(
            [
                Acknowledgement(subtask, attempt, Snapshot(self._handles(task, subtask, attempt)))
                for subtask, attempt in task.attempts.items()
            ]
        )

    def _handles(self, task: Any, subtask: Any, attempt: int) -> tuple[StateHandle, ...]:
        if not subtask.operator_id.endswith("-sink"):
            return ()
        path = f"chk-{task.checkpoint_id}/{subtask.subtask_index}-{attempt}-rows.parquet"
        self._sink.staged[path] = task.checkpoint_id
        return (StateHandle(path, HandleKind.STAGED, 3, 100, "0" * 64, task.checkpoint_id),)

    def export(self, record: Any, location: str, rewrites: Sequence[Any], copies: Sequence[Any]) -> Mapping[Any, Any]:
        self._before()
        return {}

    def compact(self, checkpoint_id: int, snapshots: Mapping[Any, Any]) -> Sequence[Any]:
        return []


class RecordedSession:
    def __init__(self) -> None:
        self.stopped = 0

    @property
    def sparkContext(self) -> "RecordedSession":
        return self

    def cancelAllJobs(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped += 1


@dataclass
class Regions:
    """Stands where a task would open Spark: every region it opened, in order, whether Java was to optimise, and
    what it would say is wrong with the definition."""

    sink: MemorySink
    before: Callable[[], None] = lambda: None
    opened: list[InProcessRegion] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    optimizing: list[bool] = field(default_factory=list)

    def region(self) -> InProcessRegion:
        return InProcessRegion(self.sink, self.before)

    @contextmanager
    def running(self, pipeline: Pipeline, spark_conn_id: str, optimizing_compiler: bool) -> Iterator[InProcessRegion]:
        self.opened.append(self.region())
        self.optimizing.append(optimizing_compiler)
        yield self.opened[-1]


@pytest.fixture
def regions(sink, monkeypatch) -> Regions:
    regions = Regions(sink)
    monkeypatch.setattr("tidegate.airflow.operators.running_region", regions.running)
    monkeypatch.setattr("tidegate.assembly.definition_problems", lambda graph, session: list(regions.problems))
    return regions


#: When a DAG run was to run, unless a test says otherwise.
RUN_AFTER = datetime(2026, 11, 22, tzinfo=UTC)


@dataclass
class Supervisor:
    """Answers a task as Airflow's supervisor does, from what is said here, and remembers what the task told it."""

    xcoms: dict[str, Any] = field(default_factory=dict)
    task_states: dict[str, str] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)

    def send(self, msg: Any) -> Any:
        from airflow.sdk.execution_time import comms

        self.told.append(msg)
        match msg:
            case comms.GetXComSequenceSlice():
                return comms.XComSequenceSliceResult(
                    root=[self.xcoms[msg.task_id]] if msg.task_id in self.xcoms else []
                )
            case comms.SetXCom():
                self.xcoms[msg.task_id] = msg.value
            case comms.GetTaskStates():
                wanted = {task: state for task, state in self.task_states.items() if task in msg.task_ids}
                return comms.TaskStatesResult(task_states={msg.run_ids[0]: wanted})
            case comms.ValidateInletsAndOutlets():
                return comms.InactiveAssetsResult(inactive_assets=[])
            case comms.GetAssetEventByAsset():
                asset = {"name": msg.name, "uri": msg.uri, "group": "asset"}
                known = [event for event in self.events if event["uri"] == msg.uri]
                return comms.AssetEventsResult(
                    asset_events=[
                        {
                            "id": n,
                            "timestamp": datetime.now(UTC),
                            "extra": event["extra"],
                            "asset": asset,
                            "created_dagruns": [],
                        }
                        for n, event in enumerate(known)
                    ]
                )
        return None


@dataclass
class Ran:
    """How a task ended: Airflow's state for it, its last word to the supervisor, and its error."""

    state: str
    message: Any
    error: BaseException | None


@pytest.fixture
def supervisor(monkeypatch) -> Supervisor:
    from airflow.sdk.execution_time import task_runner

    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor


@pytest.fixture
def run(supervisor) -> Callable[..., Ran]:
    """Run a task with Airflow's task runner, which decides what its outcome means."""
    from airflow.sdk.api.datamodels._generated import DagRun, TIRunContext
    from airflow.sdk.execution_time import task_runner

    def run(
        task: Any, run_id: str = "r1", *, try_number: int = 1, retries: int = 3, run_type: str = "manual",
        next_method: str | None = None, conf: dict[str, Any] | None = None, run_after: datetime = RUN_AFTER,
        user: str | None = None, clear_number: int = 0,
    ) -> Ran:  # fmt: skip
        now = datetime.now(UTC)
        dag_run = DagRun(
            dag_id=task.dag_id, run_id=run_id, logical_date=now, data_interval_start=now, data_interval_end=now,
            run_after=run_after, start_date=now, end_date=None, run_type=run_type, state="running",
            consumed_asset_events=[], partition_key=None, conf=conf, triggering_user_name=user,
            clear_number=clear_number,
        )  # fmt: skip
        context = TIRunContext(
            dag_run=dag_run, max_tries=retries, should_retry=try_number <= retries, next_method=next_method,
            next_kwargs={"event": None} if next_method else None,
        )  # fmt: skip
        ti = task_runner.RuntimeTaskInstance.model_construct(
            id=uuid4(), dag_id=task.dag_id, task_id=task.task_id, run_id=run_id, try_number=try_number, map_index=-1,
            dag_version_id=uuid4(), task=task, bundle_instance=None, _ti_context_from_server=context,
            max_tries=retries, start_date=now, state="running",
        )  # fmt: skip
        before = signal.getsignal(signal.SIGTERM)
        try:
            state, message, error = task_runner.run(ti, ti.get_template_context(), structlog.get_logger("task"))
        finally:
            signal.signal(signal.SIGTERM, before)
        return Ran(state.value, message, error)

    return run


@pytest.fixture
def dag(pipeline):
    return checkpoint_dag(pipeline)


@pytest.fixture
def checkpoint(pipeline):
    """The record of a checkpoint, as it is in the database now."""
    store = open_store()
    return lambda checkpoint_id=1: store.checkpoint(pipeline.name, checkpoint_id)


@pytest.fixture
def good(monkeypatch):
    """A judge that finds everything good, where Great Expectations would be asked."""
    return judge(monkeypatch, True)
