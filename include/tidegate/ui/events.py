"""Server-sent events: it is time to ask again. A browser that hears them asks the API for what it shows.

Whatever the number of browsers, one connection to the database listens for all of them (`tidegate.reading.changes`).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

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
    users, allowed = users_of(request), dict[str, bool]()

    def readable(pipeline_id: str) -> bool:
        if pipeline_id not in allowed:
            allowed[pipeline_id] = may(users, user, readings.dags(pipeline_id), Right.READ)
        return allowed[pipeline_id]

    return _stream(readings.changes, readable)


@event_routes.get("/pipelines/{pipeline}/events", response_class=StreamingResponse)
def pipeline_events(readings: ReadingsDep, pipeline: Pipeline) -> StreamingResponse:
    """The same for one pipeline."""
    readings.pipeline(pipeline)  # there is one
    return _stream(readings.changes, lambda changed: changed == pipeline)


def _stream(changes: Changes, wanted: Callable[[str], bool]) -> StreamingResponse:
    return StreamingResponse(events(changes, wanted), media_type="text/event-stream", headers=_HEADERS)


async def events(changes: Changes, wanted: Callable[[str], bool], heartbeat: float = 15.0) -> AsyncIterator[str]:
    """The text of each event. The browser comes again by itself after the end, and its rights are looked at anew."""
    end = asyncio.get_running_loop().time() + LONGEST
    async with aclosing(changes.subscribe(heartbeat)) as heard:
        async for change in heard:
            if change is None:
                yield _HEARTBEAT
            else:
                # Outside of the event loop: who may read a pipeline may have to be asked of the database.
                pipelines = await asyncio.to_thread(_chosen, change, wanted)
                if pipelines or change.what is not What.CHANGED:
                    yield _event(change, pipelines)
            if asyncio.get_running_loop().time() > end:
                return


def _chosen(change: Change, wanted: Callable[[str], bool]) -> list[str]:
    return sorted(filter(wanted, change.pipelines))


def _event(change: Change, pipelines: list[str]) -> str:
    return f"event: {change.what}\ndata: {json.dumps({'pipelines': pipelines})}\n\n"
