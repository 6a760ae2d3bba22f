"""A single user for `tidegate ui`: the person who has the address that it printed.

The address holds a token. A browser gets it as a cookie with its first request, and the token leaves the address. A
page of another site can neither read the cookie nor send it, and cannot reach the server under a name of its own.
"""

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fastapi import HTTPException, Request
from fastapi.responses import PlainTextResponse, RedirectResponse

from tidegate.assembly import command_actor
from tidegate.protocol.observing.actions import Actor
from tidegate.ui.auth import Right

Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class OneUser:
    """A single user. `port` is the server's: cookies are kept by host alone, so the cookie's name has the port."""

    how_to_log_in = "Open the address that `tidegate ui` printed, which contains the token."

    def __init__(self, token: str, port: int) -> None:
        self._token = token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.cookie = f"tidegate_{port}"

    def knows(self, token: str | None) -> bool:
        return token is not None and compare_digest(token.encode(), self._token.encode())

    def is_ours(self, host: str | None) -> bool:
        return host in self._hosts

    async def identify(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.knows(token):
            return "you"
        if not self.knows(request.cookies.get(self.cookie)):
            raise HTTPException(401, self.how_to_log_in)
        return "you"

    def credential(self, request: Request) -> str:
        return self._token

    def address(self) -> str:
        return ""  # no other host is accepted

    def actor(self, request: Request, user: Any) -> Actor:
        return command_actor()  # the server runs as the user who has started it

    def permitted(self, user: Any, dag_ids: Collection[str], right: Right) -> frozenset[str]:
        return frozenset(dag_ids)

    def permitted_at_all(self, user: Any, right: Right) -> bool:
        return True


def at_the_door(app: Asgi, user: OneUser) -> Asgi:
    """Return the app, with the token in an address turned into a cookie, and requests for another host refused."""

    async def door(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        request = Request(scope)
        if not user.is_ours(request.headers.get("host")):
            refusal = PlainTextResponse("This server answers on this machine only.", 421)
            return await refusal(scope, receive, send)
        if user.knows(request.query_params.get("token")) and request.method == "GET":
            kept = [(name, value) for name, value in parse_qsl(request.url.query) if name != "token"]
            response = RedirectResponse(request.url.path + ("?" + urlencode(kept) if kept else ""), 303)
            response.set_cookie(user.cookie, request.query_params["token"], httponly=True, samesite="strict", path="/")
            response.headers["Referrer-Policy"] = "no-referrer"
            return await response(scope, receive, send)
        return await app(scope, receive, send)

    return door
