"""Airflow's own authentication and authorisation, for an app that Airflow serves but does not protect.

The only place that imports Airflow's `core_api.security`, which is not declared public: if it moves, only this file
changes.
"""

from collections.abc import Collection
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.models.dag import DagModel
from fastapi import Request


class AirflowUsers:
    """By the token of a request, or by the login cookie of a browser."""

    how_to_log_in = "Log in to Airflow, then load this page again."

    async def identify(self, request: Request) -> Any:
        return await get_user(request, None, await bearer_scheme(request))

    def readable(self, user: Any, dag_ids: Collection[str]) -> frozenset[str]:
        teams = DagModel.get_dag_id_to_team_name_mapping(list(dag_ids))
        return frozenset(id_ for id_ in dag_ids if _is_authorized(user, DagDetails(id=id_, team_name=teams.get(id_))))

    def may_read_dags(self, user: Any) -> bool:
        return _is_authorized(user, DagDetails())


def _is_authorized(user: Any, dag: DagDetails) -> bool:
    return bool(get_auth_manager().is_authorized_dag(method="GET", details=dag, user=user))
