"""The FastAPI app behind `/tidegate`: the reports of validated checkpoints.

Decides what may be served and with which headers. Who may see it is decided in `auth`, for the app as a whole, so that
no route can be added without it.
"""

import re
from pathlib import Path

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse

from tidegate.settings import Settings
from tidegate.ui.auth import may_read_pipeline

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
# Reports hold values from the data: nothing in them may run, load or send, and only Airflow's own pages may frame them.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-cache",
}

docs_routes = APIRouter(prefix="/docs")


def create_app(docs: Path | None = None) -> FastAPI:
    """The app, serving reports below `docs` (default: the settings'). FastAPI's own open pages are left out."""
    app = FastAPI(title="Tidegate", docs_url=None, redoc_url=None, openapi_url=None, dependencies=[may_read_pipeline()])
    app.state.docs = docs or Settings.from_environment().docs
    app.include_router(docs_routes)
    return app


@docs_routes.get("/{dag_id}/chk-{checkpoint_id:int}/{name}")
def report_file(request: Request, dag_id: str, checkpoint_id: int, name: str) -> FileResponse:
    """A file of a checkpoint's report. 404 for whatever is not one, without saying why."""
    path = confined(request.app.state.docs, dag_id, f"chk-{checkpoint_id}", name)
    if path is None or path.suffix not in _TYPES:
        raise HTTPException(404, "There is no such report. Reports of old checkpoints are removed.")
    return FileResponse(path, media_type=_TYPES[path.suffix], headers=_HEADERS)


def confined(root: Path, *segments: str) -> Path | None:
    """The file at `segments` below `root`, or None where there is none or it lies elsewhere, also by a symbolic link."""
    if not all(_SEGMENT.fullmatch(segment) for segment in segments):
        return None
    real = root.resolve()
    path = real.joinpath(*segments).resolve()
    return path if path.is_relative_to(real) and path.is_file() else None
