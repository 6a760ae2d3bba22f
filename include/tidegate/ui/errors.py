"""The HTTP status of Tidegate's errors. Their sentences are the answer, in the form of Flink's API: `{"errors":
[...]}`.
"""

from fastapi import Request
from fastapi.responses import JSONResponse

from tidegate.protocol.facts.errors import (
    CheckpointNotFoundError,
    CheckpointNotRetainedError,
    ConfigurationError,
    IllegalRequestError,
    MetadataError,
    OperatorNotFoundError,
    PipelineNotFoundError,
    StateIntegrityError,
    StateSchemaError,
    StorageError,
    StoreUnavailableError,
    UnknownOutcomeError,
)

#: Any other of Tidegate's errors is a fault of the server.
STATUS: dict[type[Exception], int] = {
    IllegalRequestError: 400,
    PipelineNotFoundError: 404,
    CheckpointNotFoundError: 404,
    OperatorNotFoundError: 404,
    CheckpointNotRetainedError: 404,
    StateSchemaError: 404,
    StateIntegrityError: 404,  # the file is missing, or differs from the one written
    MetadataError: 404,
    StorageError: 503,
    StoreUnavailableError: 503,
    UnknownOutcomeError: 503,
    ConfigurationError: 503,
}


def status_of(error: Exception) -> int:
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def say_error(request: Request, error: Exception) -> JSONResponse:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return JSONResponse({"errors": [str(error)]}, status_of(error), headers)
