"""Commits several tables of a REST catalog together, if the catalog supports it.

pyiceberg commits one table at a time, and waits for answers without a limit. Its session and its check of the server's
endpoints are private names, so this is a shortcut: without them, tables change one after the other.
"""

from collections.abc import Sequence
from functools import partial

from pydantic import Field
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import Endpoint, RestCatalog
from pyiceberg.catalog.rest.response import ErrorResponse
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    RESTError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableRequest
from pyiceberg.typedef import IcebergBaseModel

from tidegate.settings.shortcuts import Shortcut

_REST = "pyiceberg.catalog.rest:RestCatalog"
SHORTCUT = Shortcut(
    "tables",
    "pyiceberg",
    (f"{_REST}._check_endpoint", f"{_REST}()._session"),
    "tables of a REST catalog change one after the other, and requests have no time limit",
)
_TOGETHER = Endpoint.from_string("POST /v1/{prefix}/transactions/commit")
#: Seconds to wait for a server's answer. Whether it has carried out a commit is checked afterwards.
TIME_LIMIT = 120
_ERRORS: dict[int, type[Exception]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    409: CommitFailedException,
    419: UnauthorizedError,
    500: CommitStateUnknownException,
    502: CommitStateUnknownException,
    504: CommitStateUnknownException,
}


class _CommitTransactionRequest(IcebergBaseModel):
    table_changes: tuple[CommitTableRequest, ...] = Field(alias="table-changes")


def with_time_limit(catalog: Catalog) -> Catalog:
    """Give requests to a REST catalog a time limit, which pyiceberg does not have."""
    if isinstance(catalog, RestCatalog) and SHORTCUT.is_taken():
        session = catalog._session
        session.request = partial(session.request, timeout=TIME_LIMIT)  # type: ignore[method-assign]
    return catalog


def takes_several(catalog: Catalog) -> bool:
    """Whether the catalog changes several tables in one commit, according to its configuration."""
    if not isinstance(catalog, RestCatalog) or not SHORTCUT.is_taken():
        return False
    try:
        catalog._check_endpoint(_TOGETHER)
    except NotImplementedError:
        return False
    return True


def commit_together(catalog: Catalog, changes: Sequence[CommitTableRequest]) -> None:
    """Carry out all changes or none. Raise the errors of `Catalog.commit_table`."""
    assert isinstance(catalog, RestCatalog)
    request = _CommitTransactionRequest.model_validate({"table-changes": tuple(changes)})
    answer = catalog._session.post(catalog.url("transactions/commit"), data=request.model_dump_json().encode())
    if answer.status_code >= 400:
        try:
            message = ErrorResponse.model_validate_json(answer.text).error.message
        except ValueError:  # the answer of a proxy in between
            message = answer.text
        raise _ERRORS.get(answer.status_code, RESTError)(f"{answer.status_code} {answer.reason}: {message}")
