"""One answer for all browsers that follow the same page, so that a commit does not render the page for each of them.

They all request it at once, right after a notification. A page that a browser reloads by itself (`static/live.js`) is
shared among those who see the same: the same address, with the same rights. An answer is used until the next
notification, and for a second at most, because pages also show ages. A user who opens a page always gets a new one, and
so do all while changes are not received. FastAPI checks login and rights before, for each request.
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
#: The longest time that an answer is used, in seconds.
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
        """Return the answer that the first request makes, also for those that arrive meanwhile. An error of `make` is
        raised.
        """
        with self._lock:
            now, shared = self._clock(), self._known.get(key)
            if is_first := shared is None or shared.moment != moment or shared.until <= now:
                self._known = {each: entry for each, entry in self._known.items() if entry.until > now}
                shared = self._known[key] = _Shared(moment, now + LASTS)
        if is_first:
            try:
                shared.answer.set_result(make())
            except BaseException as error:
                shared.answer.set_exception(error)
        return copy(shared.answer.result())


class PageRoutes(APIRouter):
    """Routes of pages, whose answers are shared."""

    def add_api_route(self, path: str, endpoint: Page, **how: Any) -> None:
        super().add_api_route(path, _shared(endpoint), **how)


def _shared(endpoint: Page) -> Page:
    """Share a page among requests whose parameters are all equal; the part that depends on the user is one of them.

    A parameter that differs for each user, and does not define equality, keeps the page from being shared.
    """

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
