"""The app as it is served, for anybody and without Airflow, and what `make bench-pages` asks of it.

python benchmarks/page_app.py PORT      serves it; TIDEGATE_DATABASE_URL says where the database is
"""

import sys
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from many_checkpoints import LARGE, PLAN

from tidegate.assembly import open_readings
from tidegate.protocol.observing.actions import Actor, ActorKind
from tidegate.ui.api import PREFIX
from tidegate.ui.app import create_app
from tidegate.ui.auth import Right


class Everybody:
    """May do everything, with every DAG."""

    how_to_log_in = "Nobody has to."

    async def identify(self, request: Request) -> str:
        return "somebody"

    def credential(self, request: Request) -> str:
        return ""

    def address(self) -> str:
        return ""

    def actor(self, request: Request, user: Any) -> Actor:
        return Actor(ActorKind.CLI_USER, "somebody", "here")

    def permitted(self, user: Any, dag_ids: Collection[str], right: Right) -> frozenset[str]:
        return frozenset(dag_ids)

    def permitted_at_all(self, user: Any, right: Right) -> bool:
        return True


def addresses(app: FastAPI, last: int) -> list[str]:
    """Of the API and of the pages, of the pipeline with the most checkpoints; `last` is its newest. Every page of the
    app's own list of routes is there, so that none can be forgotten, and some with what makes them slow. A search that
    finds nothing has looked at everything."""
    newest = last - 2
    return [*(f"{PREFIX}{path}" for path in _of_api(newest)), *_pages(app, newest), *_slow_pages(newest)]


def _pages(app: FastAPI, newest: int) -> list[str]:
    """A route with another parameter fails here: decide what it is measured with."""
    run_id = quote(f"scheduled__{newest}", safe="")
    values = {"pipeline": LARGE, "checkpoint": newest, "dag_id": f"dag-of-{LARGE}", "run_id": run_id, "plan": PLAN}
    pages = [route for route in app.routes if isinstance(route, APIRoute) and "GET" in route.methods]
    apart = (f"{PREFIX}/", "/docs/", "/static/")
    return [route.path_format.format_map(values) for route in pages if not route.path.startswith(apart)]


def _slow_pages(newest: int) -> list[str]:
    large = f"/pipelines/{LARGE}"
    return [
        "/?text=pipeline-99",
        f"{large}/history?text=nothing like it",
        f"{large}/history?before={newest // 2}",
        f"{large}/quality?target=sink:out&suite=suite-1",
        f"{large}/checkpoints/{newest}?operator=totals",
    ]


def _of_api(newest: int) -> list[str]:
    large = f"/pipelines/{LARGE}"
    return [
        "/pipelines",
        "/pipelines?text=pipeline-99",
        large,
        f"{large}/checkpoints",
        f"{large}/checkpoints/{newest}",
        f"{large}/checkpoints/{newest}/subtasks/totals",
        f"{large}/checkpoints/{newest}/files",
        f"{large}/checkpoints/{newest}/verdicts",
        f"{large}/history",
        f"{large}/history?before={newest // 2}",
        f"{large}/history?status=FAILED",
        f"{large}/history?status=HELD&status=ABANDONED",
        f"{large}/history?kind=SAVEPOINT",
        f"{large}/history?kind=SYNC_SAVEPOINT",
        f"{large}/history?text=change 4",
        f"{large}/history?text=nothing like it",
        f"{large}/history?since=2020-01-01T00:00:00Z&until=2020-02-01T00:00:00Z",
        f"{large}/series",
        f"{large}/series?since=2020-01-01T00:00:00Z",
        f"{large}/sources",
        f"{large}/state",
        f"{large}/tables",
        f"{large}/quality",
        f"{large}/quality?target=sink:out&suite=suite-1",
        f"{large}/checkpoints/config",
        f"{large}/audit",
        f"{large}/restore-plans/{PLAN}",
    ]


def main() -> None:
    app = create_app(open_readings=open_readings, users=Everybody())
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", lifespan="off", ws="none")


if __name__ == "__main__":
    main()
