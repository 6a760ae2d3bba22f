"""Who may see what: Airflow's own authentication and authorisation, for apps that Airflow serves but does not protect.

The only place that imports Airflow's `core_api.security`, which is not declared public, and the only one that decides
who may read a pipeline. The right follows the DAGs that have asked for the pipeline's checkpoints, whatever they are
called: who may read one of them may read the pipeline. A pipeline without a DAG takes the right to read DAGs at all.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request

from tidegate.ui.asking import ReadingsDep

#: The path parameters that name a pipeline or a DAG, in every route that is about one.
PIPELINE, DAG = "pipeline", "dag_id"


def may_read_pipeline() -> Any:
    """A dependency: 401 without a valid token or login cookie, 403 if the user may not read the pipeline or DAG that
    the path names, or DAGs at all where it names none. What no row can hold is not found."""
    return Depends(_require_readable)


def _require_readable(request: Request, user: GetUserDep, readings: ReadingsDep) -> None:
    if any("\0" in str(value) for value in request.path_params.values()):
        raise HTTPException(404, "There is no such thing: its name holds a character that no name has.")
    if any("\0" in value for value in request.query_params.values()):
        raise HTTPException(400, "A parameter holds a character that no text in the database has.")
    if not may_read(user, _named(request.path_params, readings)):
        raise HTTPException(403, "Forbidden")


def _named(path: Mapping[str, Any], readings: ReadingsDep) -> Collection[str]:
    """The DAGs of what the path is about."""
    if DAG in path:
        return (str(path[DAG]),)
    return readings.dags(str(path[PIPELINE])) if PIPELINE in path else ()


def may_read(user: Any, dags: Collection[str]) -> bool:
    """Whether the user may read a pipeline that has these DAGs; none: whether DAGs at all."""
    return bool(_readable(user, dags)) if dags else _is_authorized(user, DagDetails())


def _readable(user: Any, dag_ids: Collection[str]) -> frozenset[str]:
    """Those of the DAGs that the user may read."""
    teams = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids))
    return frozenset(id_ for id_ in dag_ids if _is_authorized(user, DagDetails(id=id_, team_name=teams.get(id_))))


def _is_authorized(user: Any, dag: DagDetails) -> bool:
    return bool(get_auth_manager().is_authorized_dag(method="GET", details=dag, user=user))


def readable_dags(user: GetUserDep, readings: ReadingsDep) -> frozenset[str]:
    return _readable(user, readings.all_dags())


#: The DAGs of all pipelines that the user may read.
ReadableDags = Annotated[frozenset[str], Depends(readable_dags)]
#: Whoever is logged in.
User = GetUserDep
