"""Server-sent events that notify browsers of changes. A browser then requests the current content from the API.

One connection to the database listens for any number of browsers (`tidegate.reading.changes`).
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

#: A proxy must not buffer the events.
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}
#: The longest duration of one answer, in seconds.
LONGEST = 600.0
_HEARTBEAT = ": nothing changed\n\n"


@event_routes.get("/events", response_class=StreamingResponse)
def all_events(request: Request, readings: ReadingsDep, user: User) -> StreamingResponse:
    """Stream `changed`, `lost` and `back` events for all pipelines that you may read."""
    users = users_of(request)
    return _stream(readings.changes, lambda changed: may(users, user, readings.dags(changed), Right.READ))


@event_routes.get("/pipelines/{pipeline}/events", response_class=StreamingResponse)
def pipeline_events(readings: ReadingsDep, pipeline: Pipeline) -> StreamingResponse:
    """Stream the events of one pipeline."""
    readings.pipeline(pipeline)  # raises an error if there is no such pipeline
    return _stream(readings.changes, lambda changed: changed == pipeline)


def _stream(changes: Changes, wanted: Callable[[str], bool]) -> StreamingResponse:
    return StreamingResponse(events(changes, wanted), media_type="text/event-stream", headers=_HEADERS)


async def events(changes: Changes, wanted: Callable[[str], bool], heartbeat: float = 15.0) -> AsyncIterator[str]:
    """Yield the text of each event. The browser reconnects at the end, and its rights are checked again."""
    end, wants = asyncio.get_running_loop().time() + LONGEST, _Wants(wanted)
    async with aclosing(changes.subscribe(heartbeat)) as received:
        async for change in received:
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
    """The pipelines whose changes one answer reports. The right on each is checked once."""

    wanted: Callable[[str], bool]
    known: dict[str, bool] = field(default_factory=dict)

    async def of(self, change: Change) -> list[str]:
        if new := change.pipelines - self.known.keys():
            # Outside of the event loop, because checking the rights may need the database.
            self.known.update(await asyncio.to_thread(lambda: {name: self.wanted(name) for name in new}))
        return sorted(name for name in change.pipelines if self.known[name])


def _event(change: Change, pipelines: list[str]) -> str:
    return f"event: {change.what}\ndata: {json.dumps({'pipelines': pipelines})}\n\n"
