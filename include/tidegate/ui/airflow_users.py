"""Airflow's own authentication and authorisation, for an app that Airflow serves but does not protect.

Only this module imports Airflow's `core_api.security`, which is not declared public: if it moves, only this file
changes.
"""

from collections.abc import Collection
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import HTTPException, Request

from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.ui.auth import Right


class AirflowUsers:
    """Airflow's users, identified by the token of a request or by the login cookie of a browser."""

    how_to_log_in = "Log in to Airflow, then load this page again."

    async def identify(self, request: Request) -> Any:
        """Return the user. For an invalid token, such as a cookie from before a new installation, Airflow answers
        "forbidden", but the user has to log in again.
        """
        try:
            return await get_user(request, None, await bearer_scheme(request))
        except HTTPException as error:
            raise HTTPException(401, f"{error.detail}. {self.how_to_log_in}") from error

    def credential(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return token if scheme.lower() == "bearer" and token else request.cookies.get(COOKIE_NAME_JWT_TOKEN, "")

    def address(self) -> str:
        return conf.get("api", "base_url", fallback="") or ""

    def actor(self, request: Request, user: Any) -> Actor:
        address = request.client.host if request.client else "an unknown address"
        return Actor(ActorKind.AIRFLOW_USER, user.get_name(), address)

    def permitted(self, user: Any, dag_ids: Collection[str], right: Right) -> frozenset[str]:
        teams = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids))
        details = {id_: DagDetails(id=id_, team_name=teams.get(id_)) for id_ in dag_ids}
        return frozenset(id_ for id_, dag in details.items() if _is_authorized(user, dag, right))

    def permitted_at_all(self, user: Any, right: Right) -> bool:
        return _is_authorized(user, DagDetails(), right)


def _is_authorized(user: Any, dag: DagDetails, right: Right) -> bool:
    manager = get_auth_manager()
    allowed = bool(manager.is_authorized_dag(method=right.value, details=dag, user=user))
    if right is Right.DELETE and isinstance(manager, SimpleAuthManager):
        # Its roles do not distinguish deleting a DAG from editing it. Its operators, who manage pools, may do more.
        return allowed and manager.is_authorized_pool(method="DELETE", user=user)
    return allowed
