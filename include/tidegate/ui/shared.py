"""One answer for all browsers that follow the same page: a commit does not have each of them make the page anew.

They all ask at once, right after they have heard of a change. Shared is a page that a browser asks for again by itself
(`static/live.js`), among those who see the same: the same address, with the same rights. An answer serves until the
next change is heard of, for a second at most, as pages also say how long ago something was. Who opens a page always
gets a new one, and so does everybody while changes cannot be heard. FastAPI looks at login and rights before, for each
request.
"""

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, field
from functools import wraps
from threading import Lock
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from tidegate.ui.auth import PIPELINE

HEADER = "Tidegate-Live"
#: Seconds for which an answer serves at most.
LASTS = 1.0
Page = Callable[..., Response]


@dataclass(frozen=True, slots=True)
class _Shared:
    moment: int
    until: float
    answer: "Future[Response]" = field(default_factory=Future)


class SharedAnswers:
    """The answers of one app. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._known: dict[Hashable, _Shared] = {}

    def get(self, key: Hashable, moment: int, make: Callable[[], Response]) -> Response:
        """What is made for the first who asks, also for those who ask meanwhile. Raises what `make` raises."""
        with self._lock:
            now, known = self._clock(), self._known.get(key)
            if is_first := known is None or known.moment != moment or known.until <= now:
                self._known = {each: one for each, one in self._known.items() if one.until > now}
                known = self._known[key] = _Shared(moment, now + LASTS)
        if is_first:
            try:
                known.answer.set_result(make())
            except BaseException as error:
                known.answer.set_exception(error)
        return copy(known.answer.result())


class PageRoutes(APIRouter):
    """Routes of pages, whose answers are shared."""

    def add_api_route(self, path: str, endpoint: Page, **how: Any) -> None:
        super().add_api_route(path, _shared(endpoint), **how)


def _shared(endpoint: Page) -> Page:
    """A page whose parameters are all equal is shared: what it shows of its user is one of them. A parameter that is
    another one for each user, and does not say when it is equal, keeps the page from being shared."""

    @wraps(endpoint)
    def answer(**given: Any) -> Response:
        request: Request = given["request"]
        moment = given["readings"].changes.moment(given.get(PIPELINE))
        if moment is None or HEADER not in request.headers:
            return endpoint(**given)
        scope = request.scope
        made_of = (_comparable(value) for name, value in sorted(given.items()) if name not in ("request", "readings"))
        key = (scope.get("root_path", ""), scope["path"], scope["query_string"], *made_of)
        shared: SharedAnswers = request.app.state.shared
        return shared.get(key, moment, lambda: endpoint(**given))

    return answer


def _comparable(value: object) -> Hashable:
    return tuple(value) if isinstance(value, list) else value
