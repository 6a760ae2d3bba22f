"""Whatever a request holds, it is refused in a sentence: every route, every parameter of its path and address, every
field of its body. And who is not let in is told so before a body is read."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from hands import PIPELINE
from routes import EXAMPLES, example_of
from shown_pipelines import ShownPipeline
from worlds import MemoryStorage

from tidegate.postgres.store import PostgresCheckpointStore
from tidegate.ui.actions import action_routes
from tidegate.ui.bodies import LONGEST_BODY
from tidegate.ui.same_site import HEADER, token_of

Token = Callable[[str | None], str]
#: As they stand in an address.
IN_ADDRESSES = (
    "%00", "%ED%A0%80", "-1", "9223372036854775808", "9" * 5000, "1e400", "0001-01-01T00:00:00%2B14:00", "x" * 3000,
    "99999999999999999999%2F0%2Fa",
)  # fmt: skip
#: As they stand in a body.
IN_BODIES = (
    "NaN", "1e400", "9" * 5000, r'"\ud800"', r'"\u0000"', '"' + "x" * 20_000 + '"', "null", "{}", r'["\ud800"]',
    "[NaN]", "[" * 2_000 + "]" * 2_000,
)  # fmt: skip
BODIES = (
    b"", b"null", b"[]", b"NaN", rb'"\ud800"', b"{", b"\xed\xa0\x80", rb'{"request_id": NaN, "\ud800": NaN}',
    b"[" * 100_000, b"9" * 5000,
)  # fmt: skip


@pytest.fixture
def shown(store: PostgresCheckpointStore) -> ShownPipeline:
    pipeline = ShownPipeline(store, MemoryStorage(), hold_for="2 h", ago=timedelta(minutes=5))
    pipeline.take(7, 1)
    return pipeline


def routes_of(app: FastAPI) -> Iterator[APIRoute]:
    return (route for route in app.routes if isinstance(route, APIRoute) and "events" not in route.path)


def require_promised(answer: httpx.Response, what: object) -> None:
    """An answer, or a refusal in the form that docs/reference/rest-api.md promises; a page is a page."""
    assert answer.status_code < 500, (what, answer.text[:500])
    if answer.status_code >= 400 and answer.status_code != 409:
        if "/api/" in answer.request.url.path:
            errors = answer.json()["errors"]
            assert errors, what
            assert all(isinstance(one, str) and one for one in errors), (what, errors)
            assert answer.json().keys() == {"errors"}, what
        answer.text.encode()


def test_no_value_of_an_address_ends_in_a_traceback(app: FastAPI, get: Any, token: Token, shown: ShownPipeline) -> None:
    viewer = token("viewer")
    for route in routes_of(app):
        if "GET" not in route.methods:
            continue
        base = f"/tidegate{example_of(route)}"
        names = {one.alias for one in route.dependant.query_params}
        names |= {one.alias for each in route.dependant.dependencies for one in each.query_params}
        asked = [f"{base}?{name}={value}" for name in sorted(names) for value in IN_ADDRESSES]
        for name in (one.name for one in route.dependant.path_params):
            template = f"/tidegate{route.path_format}"
            for value in filter(None, IN_ADDRESSES):
                known = {each: quote(EXAMPLES[each], safe="") for each in EXAMPLES} | {name: value}
                asked.append(template.format_map(known))
        for address in asked:
            require_promised(get(address, token=viewer), address[:300])


def test_no_value_of_a_body_ends_in_a_traceback(get: Any, token: Token, shown: ShownPipeline) -> None:
    admin = token("admin")
    headers = {HEADER: token_of(admin), "Content-Type": "application/json"}
    for route in action_routes.routes:
        assert isinstance(route, APIRoute)
        address = f"/tidegate{example_of(route)}"
        assert route.body_field is not None
        fields = list(route.body_field.field_info.annotation.model_fields)
        bodies = list(BODIES)
        for name in fields:
            for value in IN_BODIES:
                given = {"request_id": f'"{uuid4()}"', "kind": '"CHECKPOINT"', "to": '"1"'}
                known = {each: given[each] for each in fields if each in given} | {name: value}
                bodies.append(("{" + ", ".join(f'"{each}": {text}' for each, text in known.items()) + "}").encode())
        for body in bodies:
            require_promised(
                get(address, token=admin, method="POST", headers=headers, content=body), (address, body[:200])
            )


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://["}, {"Origin": "\xff"}, {"Host": "["}, {HEADER: "\xff\xfe"}], ids=str
)
def test_no_header_ends_in_a_traceback(get: Any, token: Token, shown: ShownPipeline, headers: dict[str, str]) -> None:
    admin = token("admin")
    told = {HEADER: token_of(admin)} | headers
    raw = [(name.encode(), value.encode("latin-1")) for name, value in told.items()]
    answer = get(
        f"/tidegate/api/v1/pipelines/{PIPELINE}/suspend", token=None, method="POST",
        headers=[*raw, (b"Authorization", f"Bearer {admin}".encode())], json={"request_id": str(uuid4())},
    )  # fmt: skip
    require_promised(answer, headers)


@pytest.mark.parametrize("cookie", ["x", "a.b.c", "\xff", "é"], ids=ascii)
@pytest.mark.parametrize("path", ["", "pipelines/flight_delays", "api/v1/pipelines", "static/none/menu.svg"])
def test_a_cookie_that_is_none_says_to_log_in(get: Any, shown: ShownPipeline, cookie: str, path: str) -> None:
    answer = get(f"/tidegate/{path}", headers=[(b"Cookie", f"_token={cookie}".encode("latin-1"))])
    assert answer.status_code == 401
    assert "og in" in answer.text


def test_an_old_cookie_says_to_log_in(get: Any, expired: str, shown: ShownPipeline) -> None:
    for path in ("", "api/v1/pipelines"):
        answer = get(f"/tidegate/{path}", cookie=expired)
        assert (answer.status_code, "og in" in answer.text) == (401, True)


def sent(app: FastAPI, headers: dict[str, str], chunks: int) -> tuple[int, int]:
    """The status of an answer, and how many of the chunks of a body were read before it."""
    read, status = 0, 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1
        return {"type": "http.request", "body": b" " * 65_536, "more_body": read < chunks}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]

    path = f"/api/v1/pipelines/{PIPELINE}/suspend"
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1),
        "server": ("airflow", 80),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return status, read


def test_a_body_is_read_of_those_alone_who_may_act_and_never_further_than_its_bound(
    app: FastAPI, get: Any, token: Token, shown: ShownPipeline
) -> None:
    admin, viewer = token("admin"), token("viewer")
    json_type = {"content-type": "application/json"}
    mine = {"authorization": f"Bearer {admin}", HEADER: token_of(admin)} | json_type
    assert sent(app, json_type, 700) == (401, 0)
    assert sent(app, json_type | {"cookie": "_token=x"}, 700) == (401, 0)
    assert sent(app, {"authorization": f"Bearer {viewer}", HEADER: token_of(viewer)} | json_type, 700) == (403, 0)
    assert sent(app, {"authorization": f"Bearer {admin}"} | json_type, 700) == (403, 0)
    assert sent(app, mine | {"content-length": str(700 * 65_536)}, 700) == (413, 0)
    status, read = sent(app, mine, 700)
    assert (status, read) == (413, LONGEST_BODY // 65_536 + 1)
    large = json.dumps({"request_id": str(uuid4())}) + " " * (LONGEST_BODY - 100)
    answer = get(
        f"/tidegate/api/v1/pipelines/{PIPELINE}/suspend",
        token=admin,
        method="POST",
        headers=mine,
        content=large.encode(),
    )
    assert answer.status_code == 200
