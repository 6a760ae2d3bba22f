"""Bodies of requests, read only from users who may act, and only up to a limit.

FastAPI reads the whole body before it calls any dependency, so a stranger could make the server hold 40 MB and more.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from tidegate.ui.asking import asking_of
from tidegate.ui.auth import check_rights, users_of

#: Bytes. The longest useful body accepts a plan that leaves a thousand operators.
LONGEST_BODY = 1 << 20
_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ActionRoute(APIRoute):
    """A route that checks login and rights before it reads the body."""

    def get_route_handler(self) -> _Handler:
        act = super().get_route_handler()

        async def answer(request: Request) -> Response:
            user = await users_of(request).identify(request)
            await run_in_threadpool(lambda: check_rights(request, user, asking_of(request.app).readings()))
            body = await _read(request)

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": body, "more_body": False}

            return await act(Request(request.scope, receive))

        return answer


async def _read(request: Request) -> bytes:
    """Read the body.

    Raises:
        HTTPException: 413 if it is too long.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and len(announced) < 20 and int(announced) > LONGEST_BODY:
        raise _too_long()
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise _too_long()
    return bytes(body)


def _too_long() -> HTTPException:
    return HTTPException(413, f"The body is longer than {LONGEST_BODY:,} bytes. Nothing was changed. Send less.")
