"""The next scheduled runs of a pipeline's DAGs. They come from Airflow; without it, none are shown."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from tidegate.documents.pipeline_models import NextRun
from tidegate.ui.asking import ReadingsDep
from tidegate.ui.auth import Right, User, named_dags, users_of


class Schedules(Protocol):
    def next_runs(self, dag_ids: Collection[str]) -> Mapping[str, NextRun]:
        """Return the next run by DAG. DAGs that no longer exist are left out."""
        ...


class NoSchedules:
    """The schedules where there is no Airflow."""

    def next_runs(self, dag_ids: Collection[str]) -> Mapping[str, NextRun]:
        return {}


NextRuns = Mapping[str, NextRun]


@dataclass(frozen=True, slots=True)
class ReadableRuns:
    """The next runs of the DAGs that the user may read; equal for users with the same rights."""

    schedules: Schedules
    readable: frozenset[str]

    def __call__(self, dag_ids: Collection[str]) -> NextRuns:
        wanted = self.readable.intersection(dag_ids)
        return self.schedules.next_runs(wanted) if wanted else {}


def _readable_runs(request: Request, user: User, readings: ReadingsDep) -> ReadableRuns:
    dags = named_dags(request.path_params, readings) or readings.all_dags()
    return ReadableRuns(request.app.state.schedules, users_of(request).permitted(user, dags, Right.READ))


#: Returns the next runs of the DAGs that the user may read.
NextRunsDep = Annotated[ReadableRuns, Depends(_readable_runs)]


def known_runs(dag_ids: Sequence[str], known: NextRuns) -> list[NextRun]:
    """Return the known runs in the order of the DAGs."""
    return [one for dag_id in dag_ids if (one := known.get(dag_id)) is not None]
