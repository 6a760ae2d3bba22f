"""The checkpoint storage as pages read it: files as they are, and single keys of state.

Everything is imported when it is first used: who asks only for rows of the database loads neither numpy nor Arrow.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.protocol.errors import ConfigurationError, IllegalRequestError, StorageError
from tidegate.protocol.operator_state import OperatorState

if TYPE_CHECKING:
    from tidegate.state.layout import StateLayout
    from tidegate.state.storage import ArrowCheckpointStorage


class StoredState:
    """Implements `ports.KeyReader`."""

    def __init__(self, storage_url: str, cache_dir: str | None) -> None:
        self._storage_url = storage_url
        self._cache_dir = cache_dir

    def open(self) -> "ArrowCheckpointStorage":
        from tidegate.state.storage import open_storage

        return open_storage(self._storage_url)

    def key_columns(self, state: OperatorState) -> list[tuple[str, str]]:
        return [(column.name, column.sql) for column in self._layout(state).keys]

    def row_of(self, state: OperatorState, key: Sequence[str | None]) -> Mapping[str, Any] | None:
        from tidegate.state.keys import one_key
        from tidegate.state.reading import StateFiles, open_state
        from tidegate.state.showing import json_rows

        try:
            one_key(self._layout(state), key)
        except ConfigurationError as error:
            raise IllegalRequestError(str(error)) from error
        reading = open_state(StateFiles(self._storage_url, self._cache_dir, state), key)
        return next((row for batch in reading.batches() for row in json_rows(batch.slice(0, 1))), None)

    def _layout(self, state: OperatorState) -> "StateLayout":
        from tidegate.state.opening import known_layout
        from tidegate.state.runs import newest_of

        _require_own(state)
        return known_layout(self._storage_url, state.where(), newest_of(state.runs))


def _require_own(state: OperatorState) -> None:
    """A pipeline's state lies below its own directory: whoever may read the one may not thereby read another."""
    for run in state.runs:
        if not run.path.startswith(f"{state.pipeline_id}/"):
            raise StorageError(
                f"The state of {state.where()}, names a file that is not of this pipeline. Nothing was read. See that "
                "nobody has changed the database by hand."
            )
