"""Registers Tidegate's pages with Airflow, as the entry point `tidegate` of the installed package.

Every Airflow process loads plugins, so nothing heavy is imported here.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from tidegate.ui.urls import PREFIX, path_in_airflow

Message = MutableMapping[str, Any]


@cache
def _app() -> Any:
    from tidegate.ui.app import create_app

    return create_app()


async def tidegate_app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Serve the ASGI app, which is built at its first request: only the API server ever gets one."""
    await _app()(scope, receive, send)


class TidegatePlugin(AirflowPlugin):
    name = "tidegate"
    fastapi_apps: list[Any] = [{"app": tidegate_app, "url_prefix": PREFIX, "name": "Tidegate"}]  # noqa: RUF012 - as its base declares it
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "Checkpoints",
            "href": path_in_airflow("/"),
            "destination": "nav",
            "url_route": "checkpoints",
            "nav_top_level": True,
            "icon": path_in_airflow("/static/menu/menu.svg"),
            "icon_dark_mode": path_in_airflow("/static/menu/menu-dark.svg"),
        },
        {
            "name": "Checkpoints",
            "href": path_in_airflow("/dags/{DAG_ID}"),
            "destination": "dag",
            "url_route": "checkpoints-of-dag",
        },
        {
            "name": "Checkpoint",
            "href": path_in_airflow("/dags/{DAG_ID}/runs/{RUN_ID}"),
            "destination": "dag_run",
            "url_route": "checkpoint-of-run",
        },
    ]
