"""Only our own pages, and programs, may change something: a page of another site cannot, although the browser would
send the login cookie with what it asks for.

Whoever asks gives the header `Tidegate-Token`. Its value follows from the login, and `/api/v1/token` tells it to
whoever is logged in; another site can neither read that answer nor send the header.
"""

from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

HEADER = "Tidegate-Token"


def token_of(credential: str) -> str:
    """Tells nothing about the credential."""
    return sha256(f"tidegate token of {credential}".encode()).hexdigest()


def require_same_site(request: Request, credential: str, address: str) -> None:
    """`address` is where browsers find this site, if that is configured: a proxy may hand on another host. Raises
    `HTTPException`, 403."""
    given = request.headers.get(HEADER, "")
    if not credential or not compare_digest(given.encode(), token_of(credential).encode()):
        raise HTTPException(403, f"The header {HEADER} is missing or of another login. Nothing was changed.")
    if not _is_of_this_site(request, address):
        raise HTTPException(403, "A page of another site has asked. Nothing was changed.")


def _is_of_this_site(request: Request, address: str) -> bool:
    """Browsers say which site asks, older ones and those without TLS its origin alone; programs say nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is None:
        return True
    try:
        asked = urlsplit(origin)
    except ValueError:  # no address at all
        return False
    if asked.netloc == request.headers.get("host"):
        return True
    return bool(address) and asked[:2] == urlsplit(address)[:2]
