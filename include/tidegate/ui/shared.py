"""One answer for all browsers that follow the same page: what a commit costs the server hardly grows with them.

They all ask at once, right after they have heard of a change. Shared is a page that a browser asks for again by itself
(`static/live.js`), among those who see the same: the same address, with the same rights. An answer serves until the
next change is heard of, for a second at most, as pages also say how long ago something was. Who opens a page always
gets a new one, and so does everybody while changes cannot be heard.

Login and rights are looked at for each request, on one visit to a thread; which DAGs the pipeline has is shared, too.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from tidegate.reading.readings import Readings
from tidegate.ui.asking import asking_of, looked_up, readings_of
from tidegate.ui.auth import (
    DAG,
    PIPELINE,
    KnowsDags,
    check_rights,
    readable_dags,
    rights_of,
    users_of,
)
from tidegate.ui.dag_runs import startable_of
from tidegate.ui.schedules import readable_runs

HEADER = "Tidegate-Live"
#: Seconds for which an answer serves at most.
LASTS = 1.0
#: What a page shows of its user. Each is called with the request, the user and what knows the DAGs.
_OF_THE_USER: tuple[Callable[..., Hashable], ...] = (rights_of, startable_of, readable_runs, readable_dags)
#: What is the same for all who ask for an address.
_OF_THE_ADDRESS = (readings_of, looked_up, check_rights)
_Handler = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(frozen=True, slots=True)
class _Shared:
    moment: int
    until: float
    answer: "asyncio.Task[Any]"


class SharedAnswers:
    """Of one app, in the event loop that serves it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Hashable, _Shared] = {}

    async def get(self, key: Hashable, moment: int, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What is made for the first who asks, also for those who ask meanwhile. Raises what `make` raises."""
        now, known = self._clock(), self._known.get(key)
        if known is None or known.moment != moment or known.until <= now:
            self._known = {each: one for each, one in self._known.items() if one.until > now}
            known = self._known[key] = _Shared(moment, now + LASTS, asyncio.create_task(make()))
        return await asyncio.shield(known.answer)  # who goes away ends it for nobody else


@dataclass(frozen=True, slots=True)
class _Dags:
    """Of what one request is about, as of a second ago at most."""

    found: tuple[str, ...]

    def dags(self, pipeline_id: str) -> tuple[str, ...]:
        return self.found

    def all_dags(self) -> tuple[str, ...]:
        return self.found


class PageRoute(APIRoute):
    """Shares its answers. Who asks for a page that is known gets it without FastAPI's way to call an endpoint, which
    takes several times as long."""

    def get_route_handler(self) -> _Handler:
        make, shown = super().get_route_handler(), self._shown_of_the_user()

        async def answer(request: Request) -> Response:
            readings = asking_of(request.app).opened
            pipeline = request.path_params.get(PIPELINE)
            moment = None if readings is None else readings.changes.moment(pipeline)
            if readings is None or moment is None or HEADER not in request.headers:
                return await make(request)
            user = await users_of(request).identify(request)
            shared: SharedAnswers = request.app.state.shared
            dags = await shared.get(("dags", pipeline), moment, lambda: _dags(request, readings))
            seen = await run_in_threadpool(_seen, request, user, dags, shown)
            scope = request.scope
            key = (scope.get("root_path", ""), scope["path"], scope["query_string"], *seen)
            known: Response = await shared.get(key, moment, lambda: make(request))
            return copy(known)

        return answer

    def _shown_of_the_user(self) -> Sequence[Callable[..., Hashable]]:
        """In the order of the parameters. Raises `TypeError` if the endpoint takes what cannot be told to be equal for
        two users: an answer must never show one of them what is another's."""
        asked = [one.call for one in self.dependant.dependencies]
        if unknown := [call for call in asked if call not in (*_OF_THE_USER, *_OF_THE_ADDRESS)]:
            raise TypeError(f"The page {self.path} cannot be shared: it depends on {unknown}.")
        return [call for call in _OF_THE_USER if call in asked]


class PageRoutes(APIRouter):
    """Routes of pages, whose answers are shared."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__(prefix=prefix, route_class=PageRoute)


async def _dags(request: Request, readings: Readings) -> KnowsDags:
    """One that the path names is known without asking."""
    if DAG in request.path_params:
        return _Dags(())
    pipeline = request.path_params.get(PIPELINE)
    ask = readings.all_dags if pipeline is None else lambda: readings.dags(pipeline)
    return _Dags(await run_in_threadpool(ask))


def _seen(
    request: Request, user: Any, dags: KnowsDags, shown: Sequence[Callable[..., Hashable]]
) -> tuple[Hashable, ...]:
    """What this user's page shows of them, if they may see it. Raises `HTTPException`."""
    check_rights(request, user, dags)
    return tuple(call(request, user, dags) for call in shown)
