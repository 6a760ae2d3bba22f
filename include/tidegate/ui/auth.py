"""Who may see what, decided in this one place, for the app as a whole.

The right follows the DAGs that have asked for the pipeline's checkpoints, whatever they are called: who may read one of
them may read the pipeline, and who may edit one of them may act on it. What cannot be taken back, to cancel, drain and
dispose, takes the right to delete one, and so does restoring. What starts a DAG run takes the right to trigger that
DAG, too (`dag_runs`). A pipeline without a DAG takes the same right on DAGs at all. `Users` says who somebody is and
what they may do with which DAGs: Airflow's users, or the one user of `tidegate ui`.
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

#: The path parameters that name a pipeline or a DAG, in every route that is about one.
PIPELINE, DAG = "pipeline", "dag_id"
#: The last words of paths that need the right to delete.
FINAL = frozenset({"cancel", "dispose", "drain", "plan-restore", "restore"})


class Right(StrEnum):
    """On a DAG, as Airflow names them."""

    READ = "GET"
    EDIT = "PUT"
    DELETE = "DELETE"


class Users(Protocol):
    """Those who may come in."""

    how_to_log_in: str  # a sentence for those who are not logged in

    async def identify(self, request: Request) -> Any:
        """Who asks. Raises `HTTPException`: 401 without a login."""
        ...

    def credential(self, request: Request) -> str:
        """The secret by which an identified user came in."""
        ...

    def address(self) -> str:
        """The URL by which browsers reach the pages, as far as it is configured; else empty."""
        ...

    def actor(self, request: Request, user: Any) -> Actor:
        """The user, for the audit."""
        ...

    def permitted(self, user: Any, dag_ids: Collection[str], right: Right) -> frozenset[str]:
        """Those of the DAGs on which the user has this right."""
        ...

    def permitted_at_all(self, user: Any, right: Right) -> bool:
        """Whether the user has it on DAGs in general."""
        ...


def users_of(request: Request) -> Users:
    users: Users = request.app.state.users
    return users


async def _identify(request: Request) -> Any:
    return await users_of(request).identify(request)


#: Whoever is logged in.
User = Annotated[Any, Depends(_identify)]


def require_rights() -> Any:
    """A dependency: 401 without a valid token or login cookie, 403 without the right that the request takes on the
    pipeline or DAG that the path names, or on DAGs at all where it names none. What changes something must come from
    our own pages, or from a program. What no row can hold is not found."""
    return Depends(check_rights)


def check_rights(request: Request, user: User, readings: ReadingsDep) -> None:
    """What `require_rights` says. Raises `HTTPException`."""
    if any("\0" in str(value) for value in request.path_params.values()):
        raise HTTPException(404, "There is no such thing: its name holds a character that no name has.")
    if any("\0" in value for _, value in request.query_params.multi_items()):
        raise HTTPException(400, "A parameter holds a character that no text in the database has.")
    users, dags = users_of(request), named_dags(request.path_params, readings)
    if not may(users, user, dags, Right.READ):
        raise HTTPException(403, "Forbidden")
    if request.method in ("GET", "HEAD"):
        return
    require_same_site(request, users.credential(request), users.address())
    if not may(users, user, dags, _right_to_change(request)):
        raise HTTPException(403, "You may not do this with any of the DAGs of this pipeline. Nothing was changed.")


def _right_to_change(request: Request) -> Right:
    return Right.DELETE if request.url.path.rsplit("/", 1)[-1] in FINAL else Right.EDIT


def named_dags(path: Mapping[str, Any], readings: Readings) -> Collection[str]:
    """The DAGs of what the path is about."""
    if DAG in path:
        return (str(path[DAG]),)
    return readings.dags(str(path[PIPELINE])) if PIPELINE in path else ()


def may(users: Users, user: Any, dags: Collection[str], right: Right) -> bool:
    """Whether the user has the right on a pipeline that has these DAGs; none: on DAGs at all."""
    return bool(users.permitted(user, dags, right)) if dags else users.permitted_at_all(user, right)


def readable_dags(request: Request, user: User, readings: ReadingsDep) -> frozenset[str]:
    return users_of(request).permitted(user, readings.all_dags(), Right.READ)


#: The DAGs of all pipelines that the user may read.
ReadableDags = Annotated[frozenset[str], Depends(readable_dags)]


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may do with a pipeline, beyond reading."""

    edit: bool
    delete: bool


def _rights(request: Request, user: User, readings: ReadingsDep) -> Rights:
    users, dags = users_of(request), named_dags(request.path_params, readings)
    return Rights(may(users, user, dags, Right.EDIT), may(users, user, dags, Right.DELETE))


#: Those of the user on the pipeline that the path names.
RightsDep = Annotated[Rights, Depends(_rights)]


def _actor(request: Request, user: User) -> Actor:
    return users_of(request).actor(request, user)


#: Who asks, for the audit.
ActorDep = Annotated[Actor, Depends(_actor)]
