"""An address for every route of an app, made from its own list, so that a new route cannot be forgotten."""

from fastapi.routing import APIRoute

#: Values of path parameters. A route with another one fails here: decide what it must be tested with.
EXAMPLES = {
    "pipeline": "flight_delays",
    "checkpoint": "7",
    "operator": "carriers",
    "name": "index.html",
    "dag_id": "their-dag",
    "run_id": "scheduled__2026-01-01T00:00:00+00:00",
    "wanted": "menu",
}


def example_of(route: APIRoute) -> str:
    """Its path with `EXAMPLES` filled in."""
    values = EXAMPLES | ({"checkpoint": "chk-7"} if route.path.startswith("/docs/") else {})
    return route.path_format.format_map(values)
