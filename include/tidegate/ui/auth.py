"""Who may see what, decided in this one place, for the app as a whole.

The right follows the DAGs that have asked for the pipeline's checkpoints, whatever they are called: who may read one of
them may read the pipeline. A pipeline without a DAG takes the right to read DAGs at all. `Users` says who somebody is
and which DAGs they may read: Airflow's users, or the one user of `tidegate ui`.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Protocol

from fastapi import Depends, HTTPException, Request

from tidegate.ui.asking import ReadingsDep

#: The path parameters that name a pipeline or a DAG, in every route that is about one.
PIPELINE, DAG = "pipeline", "dag_id"


class Users(Protocol):
    """Those who may come in."""

    how_to_log_in: str  # a sentence for those who are not logged in

    async def identify(self, request: Request) -> Any:
        """Who asks. Raises `HTTPException`: 401 without a login."""
        ...

    def readable(self, user: Any, dag_ids: Collection[str]) -> frozenset[str]:
        """Those of the DAGs that the user may read."""
        ...

    def may_read_dags(self, user: Any) -> bool:
        """Whether the user may read DAGs at all."""
        ...


def users_of(request: Request) -> Users:
    users: Users = request.app.state.users
    return users


async def _identify(request: Request) -> Any:
    return await users_of(request).identify(request)


#: Whoever is logged in.
User = Annotated[Any, Depends(_identify)]


def may_read_pipeline() -> Any:
    """A dependency: 401 without a valid token or login cookie, 403 if the user may not read the pipeline or DAG that
    the path names, or DAGs at all where it names none. What no row can hold is not found."""
    return Depends(_require_readable)


def _require_readable(request: Request, user: User, readings: ReadingsDep) -> None:
    if any("\0" in str(value) for value in request.path_params.values()):
        raise HTTPException(404, "There is no such thing: its name holds a character that no name has.")
    if any("\0" in value for value in request.query_params.values()):
        raise HTTPException(400, "A parameter holds a character that no text in the database has.")
    if not may_read(users_of(request), user, _named(request.path_params, readings)):
        raise HTTPException(403, "Forbidden")


def _named(path: Mapping[str, Any], readings: ReadingsDep) -> Collection[str]:
    """The DAGs of what the path is about."""
    if DAG in path:
        return (str(path[DAG]),)
    return readings.dags(str(path[PIPELINE])) if PIPELINE in path else ()


def may_read(users: Users, user: Any, dags: Collection[str]) -> bool:
    """Whether the user may read a pipeline that has these DAGs; none: whether DAGs at all."""
    return bool(users.readable(user, dags)) if dags else users.may_read_dags(user)


def readable_dags(request: Request, user: User, readings: ReadingsDep) -> frozenset[str]:
    return users_of(request).readable(user, readings.all_dags())


#: The DAGs of all pipelines that the user may read.
ReadableDags = Annotated[frozenset[str], Depends(readable_dags)]
