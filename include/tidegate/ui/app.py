"""The FastAPI app behind `/tidegate`: pages, validation reports, and the API.

It decides which files are served, and with which headers. `auth` decides about permissions, for the app as a whole, so
that no route can be added without it.
"""

import html
import re
from collections.abc import Callable
from pathlib import Path

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import Response

from tidegate.assembly import open_all_operations, open_readings
from tidegate.coordination.all_operations import AllOperations
from tidegate.protocol.facts.errors import CheckpointNotFoundError
from tidegate.protocol.facts.paths import checkpoint_id_of
from tidegate.reading.readings import Readings
from tidegate.settings import Settings
from tidegate.ui import checkpoint_pages, dag_pages, pipeline_pages, restore_pages, static_files
from tidegate.ui.actions import action_routes
from tidegate.ui.api import api_routes
from tidegate.ui.asking import Asking, ReadingsDep
from tidegate.ui.auth import Users, require_rights
from tidegate.ui.dag_runs import DagRuns, NoDagRuns
from tidegate.ui.error_pages import add_error_pages
from tidegate.ui.events import event_routes
from tidegate.ui.schedules import NoSchedules, Schedules
from tidegate.ui.shared import SharedAnswers
from tidegate.ui.wording import hold_sentence

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PAGE = "index.html"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
# Reports contain values from data: nothing in them may run, load or send, and only Airflow's own pages may frame them.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
}

docs_routes = APIRouter(prefix="/docs")


def create_app(
    docs: Path | None = None,
    open_readings: Callable[[], Readings] = open_readings,
    users: Users | None = None,
    open_operations: Callable[[], AllOperations] = open_all_operations,
    dag_runs: DagRuns | None = None,
    schedules: Schedules | None = None,
) -> FastAPI:
    """Create the app.

    It serves reports below `docs` (default: the settings'), and the answers of `open_readings`, which is opened with
    the first request, to `users` (default: Airflow's). User actions go to the operations of `open_operations`.
    `dag_runs` starts DAG runs; it and `schedules` default to Airflow's if the users are Airflow's, else to none.
    FastAPI's own open pages are left out.
    """
    app = FastAPI(title="Tidegate", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[require_rights()])
    app.state.docs = docs or Settings.from_environment().docs
    app.state.asking = Asking(open_readings, open_operations)
    app.state.schedules = schedules or (_airflow_schedules() if users is None else NoSchedules())
    app.state.dag_runs = dag_runs or (_airflow_runs() if users is None else NoDagRuns())
    app.state.shared = SharedAnswers()
    app.state.users = users or _airflow_users()
    app.include_router(docs_routes)
    app.include_router(api_routes)
    app.include_router(event_routes)
    app.include_router(action_routes)
    for pages in (pipeline_pages, checkpoint_pages, restore_pages, dag_pages, static_files):
        app.include_router(pages.routes)
    add_error_pages(app)
    return app


def _airflow_users() -> Users:
    from tidegate.ui.airflow_users import AirflowUsers  # needs Airflow's configuration

    return AirflowUsers()


def _airflow_runs() -> DagRuns:
    from tidegate.ui.airflow_runs import AirflowRuns

    return AirflowRuns()


def _airflow_schedules() -> Schedules:
    from tidegate.ui.airflow_schedules import AirflowSchedules  # needs Airflow's configuration

    return AirflowSchedules()


@docs_routes.get("/{pipeline}/{checkpoint}/{name}")
def report_file(request: Request, readings: ReadingsDep, pipeline: str, checkpoint: str, name: str) -> Response:
    """Return a file of a checkpoint's report; 404 for anything else, without a reason.

    The report was written at validation; a later decision is added at its top.
    """
    kind, checkpoint_id = _TYPES.get(Path(name).suffix), checkpoint_id_of(checkpoint)
    content = read_confined(request.app.state.docs, pipeline, checkpoint, name) if kind else None
    if content is None or checkpoint_id is None:
        raise HTTPException(404, "There is no such report. Reports of old checkpoints are removed.")
    if name == _PAGE and (note := _hold_as_html(readings, pipeline, checkpoint_id)):
        content = content.replace(b"</h1>", b"</h1>\n<p><strong>" + note + b"</strong></p>", 1)
    return Response(content, media_type=kind, headers=_HEADERS)


def _hold_as_html(readings: Readings, pipeline: str, checkpoint_id: int) -> bytes:
    """Return the hold as HTML; empty if the checkpoint never waited for approval, or is no longer in the database."""
    try:
        hold = readings.hold(pipeline, checkpoint_id)
    except CheckpointNotFoundError:
        return b""
    return html.escape(hold_sentence(hold, hold.waits)).encode() if hold else b""


def read_confined(root: Path, *segments: str) -> bytes | None:
    """Return the content of the file at `segments` below `root`; None if it cannot be read, or if it lies elsewhere,
    even through a symbolic link.

    There is no check before the read, because a report may be removed in between. The file system refuses names that
    are too long.
    """
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return None
    try:
        real = root.resolve()
        path = real.joinpath(*segments).resolve()
        return path.read_bytes() if path.is_relative_to(real) else None
    except (OSError, RuntimeError):  # Python up to 3.12 raises RuntimeError for links that form a circle
        return None
