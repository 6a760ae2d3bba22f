"""Server-sent events: it is time to ask again. A browser that hears them asks the API for what it shows.

Whatever the number of browsers, one connection to the database listens for all of them (`tidegate.reading.changes`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from tidegate.reading.changes import Change, Changes, What
from tidegate.ui.api import PREFIX, Pipeline
from tidegate.ui.asking import ReadingsDep
from tidegate.ui.auth import Right, User, may, users_of

event_routes = APIRouter(prefix=PREFIX)

#: A proxy must not collect what is sent.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
#: How long, in seconds, one answer goes on.
LONGEST = 600.0
_HEARTBEAT = ": nothing changed\n\n"


@event_routes.get("/events", response_class=StreamingResponse)
def all_events(request: Request, readings: ReadingsDep, user: User) -> StreamingResponse:
    """`changed`, `lost` and `back`, for all pipelines that you may read."""
    users = users_of(request)
    return _stream(readings.changes, lambda changed: may(users, user, readings.dags(changed), Right.READ))


@event_routes.get("/pipelines/{pipeline}/events", response_class=StreamingResponse)
def pipeline_events(readings: ReadingsDep, pipeline: Pipeline) -> StreamingResponse:
    """The same for one pipeline."""
    readings.pipeline(pipeline)  # there is one
    return _stream(readings.changes, lambda changed: changed == pipeline)


def _stream(changes: Changes, wanted: Callable[[str], bool]) -> StreamingResponse:
    return StreamingResponse(events(changes, wanted), media_type="text/event-stream", headers=_HEADERS)


async def events(changes: Changes, wanted: Callable[[str], bool], heartbeat: float = 15.0) -> AsyncIterator[str]:
    """The text of each event. The browser comes again by itself after the end, and its rights are looked at anew."""
    end, wants = asyncio.get_running_loop().time() + LONGEST, _Wants(wanted)
    async with aclosing(changes.subscribe(heartbeat)) as heard:
        async for change in heard:
            if change is None:
                yield _HEARTBEAT
            else:
                pipelines = await wants.of(change)
                if pipelines or change.what is not What.CHANGED:
                    yield _event(change, pipelines)
            if asyncio.get_running_loop().time() > end:
                return


@dataclass(frozen=True, slots=True)
class _Wants:
    """What one answer tells of. Each pipeline is asked about once."""

    wanted: Callable[[str], bool]
    known: dict[str, bool] = field(default_factory=dict)

    async def of(self, change: Change) -> list[str]:
        if new := change.pipelines - self.known.keys():
            # Outside of the event loop: who may read a pipeline may have to be asked of the database.
            self.known.update(await asyncio.to_thread(lambda: {each: self.wanted(each) for each in new}))
        return sorted(each for each in change.pipelines if self.known[each])


def _event(change: Change, pipelines: list[str]) -> str:
    return f"event: {change.what}\ndata: {json.dumps({'pipelines': pipelines})}\n\n"
