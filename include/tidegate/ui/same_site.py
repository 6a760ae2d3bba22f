"""Protection against requests forged by other sites, whose pages could otherwise use the browser's login cookie.

A request that changes something must have the header `Tidegate-Token`. Its value is derived from the login, and
`/api/v1/token` returns it to users who are logged in; another site can neither read that answer nor send the header.
"""

from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

HEADER = "Tidegate-Token"


def token_of(credential: str) -> str:
    """Return a token that reveals nothing about the credential."""
    return sha256(f"tidegate token of {credential}".encode()).hexdigest()


def require_same_site(request: Request, credential: str, address: str) -> None:
    """Check that a request comes from this site or from a program. `address` is the configured address of this site,
    because a proxy may pass on another host.

    Raises:
        HTTPException: 403 if it does not.
    """
    given = request.headers.get(HEADER, "")
    if not credential or not compare_digest(given.encode(), token_of(credential).encode()):
        raise HTTPException(
            403, f"The header {HEADER} is missing or belongs to another login. Nothing was changed. Reload the page."
        )
    if not _is_of_this_site(request, address):
        raise HTTPException(403, "The request comes from a page of another site. Nothing was changed.")


def _is_of_this_site(request: Request, address: str) -> bool:
    """Whether the request comes from this site. Browsers send the site, or older ones the origin alone; programs send
    neither.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    if origin is None:
        return True
    try:
        source = urlsplit(origin)
    except ValueError:  # not an address
        return False
    if source.netloc == request.headers.get("host"):
        return True
    return bool(address) and source[:2] == urlsplit(address)[:2]
