"""An address for every route of an app, made from its own list, so that a new route cannot be forgotten."""

from typing import Any
from uuid import uuid4

from fastapi.routing import APIRoute

from tidegate.ui.same_site import HEADER, token_of

PLAN = "3f0c9f6e-8a55-4a0a-9d3c-1d2b7f1f4a60"
#: Values of path parameters. A route with another one fails here: decide what it must be tested with.
EXAMPLES = {
    "pipeline": "flight_delays",
    "checkpoint": "7",
    "operator": "carriers",
    "split": "0",
    "name": "index.html",
    "dag_id": "their-dag",
    "run_id": "scheduled__2026-01-01T00:00:00+00:00",
    "wanted": "menu",
    "plan": PLAN,
}


def example_of(route: APIRoute) -> str:
    """Its path with `EXAMPLES` filled in."""
    values = EXAMPLES | ({"checkpoint": "chk-7"} if route.path.startswith("/docs/") else {})
    return route.path_format.format_map(values)


def asked_of(route: APIRoute, credential: str) -> dict[str, Any]:
    """How it is asked for by whoever came in with this credential: nothing for what only reads."""
    if "GET" in route.methods:
        return {}
    (method,) = route.methods
    given = {"requests": {"kind": "SAVEPOINT"}, "plan-restore": {"to": "1"}}.get(route.path.rsplit("/", 1)[-1], {})
    return {"method": method, "headers": {HEADER: token_of(credential)}, "json": {"request_id": str(uuid4())} | given}
