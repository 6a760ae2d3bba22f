"""When the DAGs of a pipeline run next. Only Airflow knows; without it nothing is known, and nothing is shown."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from tidegate.documents.pipeline_models import NextRun
from tidegate.ui.asking import ReadingsDep
from tidegate.ui.auth import Right, User, named_dags, users_of


class Schedules(Protocol):
    def next_runs(self, dag_ids: Collection[str]) -> Mapping[str, NextRun]:
        """By DAG; those that are not there any more are left out."""
        ...


class NoSchedules:
    """Of pipelines that nobody schedules here."""

    def next_runs(self, dag_ids: Collection[str]) -> Mapping[str, NextRun]:
        return {}


NextRuns = Mapping[str, NextRun]


@dataclass(frozen=True, slots=True)
class ReadableRuns:
    """Of DAGs that the user may read; equal for users who may read the same."""

    schedules: Schedules
    readable: frozenset[str]

    def __call__(self, dag_ids: Collection[str]) -> NextRuns:
        asked = self.readable.intersection(dag_ids)
        return self.schedules.next_runs(asked) if asked else {}


def _readable_runs(request: Request, user: User, readings: ReadingsDep) -> ReadableRuns:
    dags = named_dags(request.path_params, readings) or readings.all_dags()
    return ReadableRuns(request.app.state.schedules, users_of(request).permitted(user, dags, Right.READ))


#: Asks for those of the DAGs that the user may read.
NextRunsDep = Annotated[ReadableRuns, Depends(_readable_runs)]


def known_runs(dag_ids: Sequence[str], known: NextRuns) -> list[NextRun]:
    """In the order of the DAGs."""
    return [one for dag_id in dag_ids if (one := known.get(dag_id)) is not None]
