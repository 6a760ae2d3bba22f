"""The frame of every page: templates, their addresses and words, and the headers of the response.

Escaping is on for every template and is never turned off: values from data are text.
"""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tidegate.ui import formatting, static_files, wording
from tidegate.ui.links import Links
from tidegate.ui.urls import PREFIX

HEADERS = {
    "Content-Security-Policy": static_files.POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-store",
}

TABS = (
    ("", "Overview"),
    ("history", "History"),
    ("summary", "Summary"),
    ("configuration", "Configuration"),
    ("sources", "Sources"),
    ("state", "State"),
    ("tables", "Tables"),
    ("quality", "Quality"),
    ("audit", "Audit"),
)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(formatting.FILTERS)
    environment.globals.update(words=wording, tabs=TABS, between=formatting.between, together=formatting.together)
    return environment


def links_of(request: Request) -> Links:
    """Return the addresses. In Airflow, its own pages are next to the app."""
    base = str(request.scope.get("root_path", "")).rstrip("/")
    airflow = base.removesuffix(PREFIX) if base.endswith(PREFIX) else None
    return Links(base, airflow, static_files.version())


def page(request: Request, template: str, http_status: int = 200, **context: Any) -> HTMLResponse:
    """Render a page. It follows the changes of the `pipeline` in the context; without one, all changes."""
    given = {"pipeline": None, "tab": None, "links": links_of(request), "request": request} | context
    return HTMLResponse(_environment().get_template(template).render(given), http_status, HEADERS)


def sentence(request: Request, status: int, title: str, text: str) -> HTMLResponse:
    """Render a page with one message: an object that does not exist, or an error with advice."""
    return page(request, "sentence.html", status, title=title, text=text)
