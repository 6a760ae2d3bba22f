"""Errors, as a page for a browser and as JSON for a program."""

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
    403: "No permission",
    404: "Not found",
    422: "Not found",
    503: "Not available",
}
#: The number of invalid parts that an answer names, and the length of each.
_MOST, _LONGEST = 10, 500
#: The seconds after which a browser reloads a page that was not available.
_AGAIN = 5
_FORBIDDEN = (
    "You may not read any of the DAGs that take this pipeline’s checkpoints. Ask the administrator of Airflow for the "
    "right."
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
    texts = {401: users_of(request).how_to_log_in, 403: _FORBIDDEN}
    return _page(request, error.status_code, texts.get(error.status_code, str(error.detail)))


async def _say_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if _is_for_a_program(request):
        errors = error.errors()
        texts = [_invalid(one) for one in errors[:_MOST]]
        more = [f"{len(errors) - _MOST} more parts are not valid."] if len(errors) > _MOST else []
        return JSONResponse({"errors": texts + more}, 422)
    return _page(request, 422, "A part of the address is not valid. Start at the list of pipelines.")


def _invalid(found: Mapping[str, Any]) -> str:
    """Return the place and the requirement. The given value is quoted if it can be stored."""
    place = ".".join(str(part) for part in found["loc"])
    return storable_text(f"{place}: {found['msg']}.")[:_LONGEST]


async def _say_fault(request: Request, error: Exception) -> Response:
    """Answer an internal error, which the server's log has."""
    text = "The server has an internal error, which its log explains. It is unknown whether anything was changed."
    if _is_for_a_program(request):
        return JSONResponse({"errors": [text]}, 500)
    return _page(request, 500, text)


def _is_for_a_program(request: Request) -> bool:
    scope = request.scope
    return str(scope["path"]).removeprefix(str(scope.get("root_path", ""))).startswith(_FOR_PROGRAMS)


def _page(request: Request, status: int, text: str) -> Response:
    title = _TITLES.get(status, "Internal error")
    if status != 503:
        return sentence(request, status, title, text)
    response = sentence(request, status, title, f"{text} This page reloads itself every {_AGAIN} seconds.")
    response.headers["Refresh"] = response.headers["Retry-After"] = str(_AGAIN)
    return response
