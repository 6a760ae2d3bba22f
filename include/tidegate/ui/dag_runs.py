"""What needs the pipeline's code is done by a DAG run. The pages start one through this, where there is an Airflow."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from tidegate.ui.asking import ReadingsDep
from tidegate.ui.auth import User


@dataclass(frozen=True, slots=True)
class RunState:
    """As Airflow says it: queued, running, success, failed. What waits in a paused DAG does not begin."""

    state: str
    paused: bool

    @property
    def has_ended(self) -> bool:
        return self.state in ("success", "failed")


class DagRuns(Protocol):
    def active(self, dag_ids: Collection[str]) -> tuple[str, ...]:
        """Those of these DAGs that there are, by id."""
        ...

    def restoring(self, pipeline: str) -> str | None:
        """The DAG that restores this pipeline, if one does: the first by id of several."""
        ...

    def may_start(self, user: Any, dag_id: str) -> bool:
        """Whether the user may trigger runs of this DAG."""
        ...

    def start(self, user: Any, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> str:
        """Start it, once; a sentence that says so. Raises `ActionRefusedError` if it cannot be started, or if a DAG
        run of this id is another one, and `HTTPException` 403 if the user may not."""
        ...

    def state(self, dag_id: str, run_id: str) -> RunState | None:
        """None if there is no such DAG run, or not any more."""
        ...


class NoDagRuns:
    """Without Airflow."""

    def active(self, dag_ids: Collection[str]) -> tuple[str, ...]:
        return ()

    def restoring(self, pipeline: str) -> str | None:
        return None

    def may_start(self, user: Any, dag_id: str) -> bool:
        return False

    def start(self, user: Any, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> str:
        raise AssertionError(f"DAG {dag_id} cannot be started: without Airflow none is offered")

    def state(self, dag_id: str, run_id: str) -> RunState | None:
        return None


def dag_runs_of(request: Request) -> DagRuns:
    runs: DagRuns = request.app.state.dag_runs
    return runs


#: A route's parameter of this type starts DAG runs.
DagRunsDep = Annotated[DagRuns, Depends(dag_runs_of)]


@dataclass(frozen=True, slots=True)
class Startable:
    """The DAGs of which a run does what takes the pipeline's code: those that take checkpoints, and the one that
    restores. `denied` are those of both that the user may not trigger. `airflow`: whether there is one at all."""

    takes: tuple[str, ...] = ()
    restores: str | None = None
    denied: tuple[str, ...] = ()
    airflow: bool = True


def find_startable(runs: DagRuns, user: User, pipeline: str, dag_ids: Collection[str]) -> Startable:
    taking, restoring = runs.active(dag_ids), runs.restoring(pipeline)
    known = [*taking, *([] if restoring is None else [restoring])]
    denied = tuple(dag for dag in known if not runs.may_start(user, dag))
    return Startable(taking, restoring, denied, not isinstance(runs, NoDagRuns))


def _startable(request: Request, user: User, readings: ReadingsDep, pipeline: str) -> Startable:
    return find_startable(dag_runs_of(request), user, pipeline, readings.dags(pipeline))


#: What the user can start for the pipeline that the path names.
StartableDep = Annotated[Startable, Depends(_startable)]
