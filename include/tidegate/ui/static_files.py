"""The pages' scripts and style sheets, served from memory under a name that depends on their content, so that browsers
may cache them.
"""

from functools import cache
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, HTTPException
from fastapi.responses import Response

ROOT = Path(__file__).parent / "static"
#: It applies to scripts too: a worker is bound by the policy of its own file.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

routes = APIRouter(prefix="/static")


@cache
def files() -> dict[str, bytes]:
    """Return all served files, by their path below `static/`."""
    paths = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*")) if path.suffix in _TYPES}
    return {name: path.read_bytes() for name, path in paths.items()}


@cache
def version() -> str:
    """Return one version for all files, because scripts import each other by relative names."""
    digest = sha256()
    for name, content in files().items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:16]


@routes.get("/{wanted}/{name:path}")
def static_file(wanted: str, name: str) -> Response:
    content = files().get(name)
    if content is None:
        raise HTTPException(404, "There is no such file.")
    lasting = wanted == version()  # another version belongs to a server that is being replaced
    return Response(
        content,
        media_type=_TYPES[Path(name).suffix],
        headers={
            "Cache-Control": "private, max-age=31536000, immutable" if lasting else "private, no-cache",
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
        },
    )
