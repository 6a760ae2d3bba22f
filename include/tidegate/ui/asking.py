"""The dependencies of routes: one `Readings` for each app, opened with the first request, and the operations of all
pipelines, opened with the first action.
"""

from collections.abc import Callable
from threading import Lock
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request

from tidegate.assembly import open_all_operations
from tidegate.coordination.all_operations import AllOperations
from tidegate.coordination.operations import PipelineOperations
from tidegate.reading.readings import Readings
from tidegate.ui.stopping import server_is_stopping


class Asking:
    """The readings and operations of an app, opened when first needed. If that fails, the next request tries again.
    Thread-safe.
    """

    def __init__(
        self,
        open_readings: Callable[[], Readings],
        open_operations: Callable[[], AllOperations] = open_all_operations,
    ) -> None:
        self._open = open_readings
        self._open_operations = open_operations
        self._lock = Lock()
        self._readings: Readings | None = None
        self._operations: AllOperations | None = None

    def readings(self) -> Readings:
        """Return the readings, opening them if needed."""
        with self._lock:
            if self._readings is None:
                self._readings = self._open()
                self._readings.changes.stopping = server_is_stopping
            return self._readings

    def operations(self) -> AllOperations:
        """Return the operations, opening them if needed."""
        with self._lock:
            if self._operations is None:
                self._operations = self._open_operations()
            return self._operations

    def close(self) -> None:
        with self._lock:
            if self._operations is not None:
                self._operations.close()
            self._operations = None
            if self._readings is not None:
                self._readings.close()
            self._readings = None


def asking_of(app: FastAPI) -> Asking:
    asking: Asking = app.state.asking
    return asking


def _readings(request: Request) -> Readings:
    return asking_of(request.app).readings()


#: The type of a route's parameter that is the readings.
ReadingsDep = Annotated[Readings, Depends(_readings)]


def _key(
    key: Annotated[
        list[Annotated[str, Query(max_length=1000)]] | None,
        Query(max_length=64, description="The values of the key columns, in their order, as Spark writes them."),
    ] = None,
    null: Annotated[
        list[int] | None, Query(max_length=64, description="The indexes of the values that are null, from 0.")
    ] = None,
) -> list[str | None] | None:
    if key is None:
        return None
    return [None if place in (null or ()) else value for place, value in enumerate(key)]


#: A key to look up, None if there is none.
Key = Annotated[list[str | None] | None, Depends(_key)]


def _operations(request: Request, pipeline: str) -> PipelineOperations:
    return asking_of(request.app).operations().of(pipeline)


#: The operations of the pipeline that the path names.
OperationsDep = Annotated[PipelineOperations, Depends(_operations)]
