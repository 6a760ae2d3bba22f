"""What went wrong, said as a page to those who asked for a page, and as JSON to programs."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from tidegate.protocol.facts.errors import CheckpointError
from tidegate.protocol.text.storable import storable_text
from tidegate.ui.auth import users_of
from tidegate.ui.errors import say_error, status_of
from tidegate.ui.shell import sentence

_FOR_PROGRAMS = ("/api/", "/docs/", "/static/")
_TITLES = {
    401: "Please log in",
    403: "Not yours to see",
    404: "There is no such thing",
    422: "There is no such page",
    503: "Out of reach",
}
#: How many of the parts that are not right an answer names, and in how many characters each.
_MOST, _LONGEST = 10, 500
#: Seconds after which a browser asks again for a page that could not be answered.
_AGAIN = 5
_FORBIDDEN = (
    "You may read none of the DAGs that take this pipeline’s checkpoints. Whoever runs Airflow can give you the right."
)


def add_error_pages(app: FastAPI) -> None:
    app.add_exception_handler(CheckpointError, _say_error)
    app.add_exception_handler(HTTPException, _say_refusal)
    app.add_exception_handler(RequestValidationError, _say_invalid)
    app.add_exception_handler(Exception, _say_fault)


async def _say_error(request: Request, error: Exception) -> Response:
    if _is_for_a_program(request):
        return say_error(request, error)
    return _page(request, status_of(error), str(error))


async def _say_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if _is_for_a_program(request):
        return JSONResponse({"errors": [str(error.detail)]}, error.status_code, error.headers)
    said = {401: users_of(request).how_to_log_in, 403: _FORBIDDEN}
    return _page(request, error.status_code, said.get(error.status_code, str(error.detail)))


async def _say_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if _is_for_a_program(request):
        found = error.errors()
        said = [_invalid(one) for one in found[:_MOST]]
        more = [f"{len(found) - _MOST} more parts are not what they have to be."] if len(found) > _MOST else []
        return JSONResponse({"errors": said + more}, 422)
    return _page(request, 422, "A part of the address is not what it should be. Begin with the list of pipelines.")


def _invalid(found: Mapping[str, Any]) -> str:
    """Where it is, and what it has to be. What was given is quoted as far as it can be written."""
    place = ".".join(str(part) for part in found["loc"])
    return storable_text(f"{place}: {found['msg']}.")[:_LONGEST]


async def _say_fault(request: Request, error: Exception) -> Response:
    """Of ours; the server's log has it."""
    said = "Something went wrong in the server, and its log says what. It is not known whether anything was changed."
    if _is_for_a_program(request):
        return JSONResponse({"errors": [said]}, 500)
    return _page(request, 500, said)


def _is_for_a_program(request: Request) -> bool:
    scope = request.scope
    return str(scope["path"]).removeprefix(str(scope.get("root_path", ""))).startswith(_FOR_PROGRAMS)


def _page(request: Request, status: int, text: str) -> Response:
    title = _TITLES.get(status, "Something went wrong")
    if status != 503:
        return sentence(request, status, title, text)
    response = sentence(request, status, title, f"{text} This page asks again by itself, every {_AGAIN} seconds.")
    response.headers["Refresh"] = response.headers["Retry-After"] = str(_AGAIN)
    return response
