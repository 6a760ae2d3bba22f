"""The DAG runs that the pages start for work that needs the pipeline's code, if there is an Airflow."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from tidegate.ui.asking import ReadingsDep
from tidegate.ui.auth import User


@dataclass(frozen=True, slots=True)
class RunState:
    """The state of a run in Airflow's words: queued, running, success, failed. A run of a paused DAG does not start."""

    state: str
    paused: bool

    @property
    def has_ended(self) -> bool:
        return self.state in ("success", "failed")


class DagRuns(Protocol):
    def active(self, dag_ids: Collection[str]) -> tuple[str, ...]:
        """Return those of these DAGs that exist, by id."""
        ...

    def restoring(self, pipeline: str) -> str | None:
        """Return the DAG that restores this pipeline, if there is one; of several, the first by id."""
        ...

    def may_start(self, user: Any, dag_id: str) -> bool:
        """Whether the user may trigger runs of this DAG."""
        ...

    def start(self, user: Any, dag_id: str, run_id: str, conf: Mapping[str, Any]) -> str:
        """Start the run, once, and return a sentence that confirms it.

        Raises:
            ActionRefusedError: If it cannot be started, or if another DAG run has this id.
            HTTPException: 403 if the user may not start it.
        """
        ...

    def state(self, dag_id: str, run_id: str) -> RunState | None:
        """Return the state of the DAG run; None if it does not exist."""
        ...


class NoDagRuns:
    """The DAG runs where there is no Airflow."""

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


#: The type of a route's parameter that starts DAG runs.
DagRunsDep = Annotated[DagRuns, Depends(dag_runs_of)]


@dataclass(frozen=True, slots=True)
class Startable:
    """The DAGs whose runs do the work that needs the pipeline's code.

    `takes` take checkpoints, and `restores` restores. `denied` are those of both that the user may not trigger.
    `airflow` is whether there is an Airflow at all.
    """

    takes: tuple[str, ...] = ()
    restores: str | None = None
    denied: tuple[str, ...] = ()
    airflow: bool = True


def find_startable(runs: DagRuns, user: User, pipeline: str, dag_ids: Collection[str]) -> Startable:
    taking, restoring = runs.active(dag_ids), runs.restoring(pipeline)
    dags = [*taking, *([] if restoring is None else [restoring])]
    denied = tuple(dag for dag in dags if not runs.may_start(user, dag))
    return Startable(taking, restoring, denied, not isinstance(runs, NoDagRuns))


def _startable(request: Request, user: User, readings: ReadingsDep, pipeline: str) -> Startable:
    return find_startable(dag_runs_of(request), user, pipeline, readings.dags(pipeline))


#: The DAGs that the user can start for the pipeline that the path names.
StartableDep = Annotated[Startable, Depends(_startable)]
