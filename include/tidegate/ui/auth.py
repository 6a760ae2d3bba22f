"""Permissions, decided in one place for the app as a whole.

They follow the DAGs that have requested the pipeline's checkpoints: a user who may read one of them may read the
pipeline, and a user who may edit one of them may act on it. Actions that cannot be undone (cancel, drain and dispose)
and restores require the right to delete one. Actions that start a DAG run also require the right to trigger that DAG
(`dag_runs`). For a pipeline without a DAG, the same right on DAGs in general is required. `Users` identifies the user
and their rights on DAGs: Airflow's users, or the one user of `tidegate ui`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Protocol

from fastapi import Depends, HTTPException, Request

from tidegate.protocol.observing.actions import Actor
from tidegate.reading.readings import Readings
from tidegate.ui.asking import ReadingsDep
from tidegate.ui.same_site import require_same_site

#: The path parameters that name a pipeline or a DAG, in every route that concerns one.
PIPELINE, DAG = "pipeline", "dag_id"
#: The last segments of paths that require the right to delete.
FINAL = frozenset({"cancel", "dispose", "drain", "plan-restore", "restore"})


class Right(StrEnum):
    """A right on a DAG, with Airflow's names."""

    READ = "GET"
    EDIT = "PUT"
    DELETE = "DELETE"


class Users(Protocol):
    """The users who may log in."""

    how_to_log_in: str  # a sentence for users who are not logged in

    async def identify(self, request: Request) -> Any:
        """Return the user who made the request.

        Raises:
            HTTPException: 401 without a login.
        """
        ...

    def credential(self, request: Request) -> str:
        """Return the secret by which an identified user logged in."""
        ...

    def address(self) -> str:
        """Return the URL by which browsers reach the pages, if it is configured; else an empty text."""
        ...

    def actor(self, request: Request, user: Any) -> Actor:
        """Return the user for the audit log."""
        ...

    def permitted(self, user: Any, dag_ids: Collection[str], right: Right) -> frozenset[str]:
        """Return those of the DAGs on which the user has this right."""
        ...

    def permitted_at_all(self, user: Any, right: Right) -> bool:
        """Whether the user has the right on DAGs in general."""
        ...


def users_of(request: Request) -> Users:
    users: Users = request.app.state.users
    return users


async def _identify(request: Request) -> Any:
    return await users_of(request).identify(request)


#: The user who is logged in.
User = Annotated[Any, Depends(_identify)]


def require_rights() -> Any:
    """Return a dependency that checks login and rights.

    It answers 401 without a valid token or login cookie, and 403 without the right that the request requires on the
    pipeline or DAG that the path names, or on DAGs in general if it names none. A change must come from Tidegate's own
    pages or from a program. A name that no row can hold is answered with 404.
    """
    return Depends(check_rights)


def check_rights(request: Request, user: User, readings: ReadingsDep) -> None:
    """Check the rights as `require_rights` describes.

    Raises:
        HTTPException: If the request is not allowed.
    """
    if any("\0" in str(value) for value in request.path_params.values()):
        raise HTTPException(404, "There is no such object: names do not contain this character.")
    if any("\0" in value for _, value in request.query_params.multi_items()):
        raise HTTPException(400, "A parameter contains a character that is not valid. Remove it.")
    users, dags = users_of(request), named_dags(request.path_params, readings)
    if not may(users, user, dags, Right.READ):
        raise HTTPException(403, "Forbidden")
    if request.method in ("GET", "HEAD"):
        return
    require_same_site(request, users.credential(request), users.address())
    if not may(users, user, dags, _right_to_change(request)):
        raise HTTPException(
            403,
            "You do not have this right on any DAG of this pipeline. "
            "Nothing was changed. Ask the administrator of Airflow.",
        )


def _right_to_change(request: Request) -> Right:
    return Right.DELETE if request.url.path.rsplit("/", 1)[-1] in FINAL else Right.EDIT


def named_dags(path: Mapping[str, Any], readings: Readings) -> Collection[str]:
    """Return the DAGs of the object that the path names."""
    if DAG in path:
        return (str(path[DAG]),)
    return readings.dags(str(path[PIPELINE])) if PIPELINE in path else ()


def may(users: Users, user: Any, dags: Collection[str], right: Right) -> bool:
    """Whether the user has the right on a pipeline that has these DAGs; without any, on DAGs in general."""
    return bool(users.permitted(user, dags, right)) if dags else users.permitted_at_all(user, right)


def readable_dags(request: Request, user: User, readings: ReadingsDep) -> frozenset[str]:
    return users_of(request).permitted(user, readings.all_dags(), Right.READ)


#: The DAGs of all pipelines that the user may read.
ReadableDags = Annotated[frozenset[str], Depends(readable_dags)]


@dataclass(frozen=True, slots=True)
class Rights:
    """A user's rights on a pipeline, beyond reading."""

    edit: bool
    delete: bool


def _rights(request: Request, user: User, readings: ReadingsDep) -> Rights:
    users, dags = users_of(request), named_dags(request.path_params, readings)
    return Rights(may(users, user, dags, Right.EDIT), may(users, user, dags, Right.DELETE))


#: The user's rights on the pipeline that the path names.
RightsDep = Annotated[Rights, Depends(_rights)]


def _actor(request: Request, user: User) -> Actor:
    return users_of(request).actor(request, user)


#: The user who makes the request, for the audit log.
ActorDep = Annotated[Actor, Depends(_actor)]
