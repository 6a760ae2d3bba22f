"""Checkpoint storage for the pages: files unchanged, and single keys of state.

Everything is imported on first use, so that a process that reads only rows of the database loads neither numpy nor
Arrow.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tidegate.protocol.facts.errors import ConfigurationError, IllegalRequestError, StateSchemaError
from tidegate.protocol.facts.records import StateHandle
from tidegate.protocol.schema.operator_state import OperatorState

if TYPE_CHECKING:
    from tidegate.state.layout import StateLayout
    from tidegate.state.storage import ArrowCheckpointStorage


class StoredState:
    """See `ports.KeyReader`."""

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

    def files_of(self, position: StateHandle, checkpoint_id: int) -> list[tuple[str, int]]:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        if "file" in position.details:  # it is the copy of a version, not a list
            return [(position.details["file"], position.bytes)]
        content = self.open().read(position.path)
        if len(content) != position.bytes or sha256(content).hexdigest() != position.checksum:
            raise self.open().differs(position, "its content differs from its recorded size or checksum")
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            table = file.read(use_threads=False)
            if "touched" in table.column_names:  # files read earlier that only look different since
                table = table.filter(pc.invert(table.column("touched")))
            table = table.select(["path", "size", "checkpoint"])
        except (pa.ArrowException, ValueError, KeyError) as error:
            raise StateSchemaError(f"{position.path} is not a list of files that a source has read.") from error
        read_then = table.filter(pc.equal(table.column("checkpoint"), checkpoint_id))
        return list(zip(read_then.column("path").to_pylist(), read_then.column("size").to_pylist(), strict=True))

    def _layout(self, state: OperatorState) -> "StateLayout":
        from tidegate.state.opening import known_layout
        from tidegate.state.runs import newest_of

        return known_layout(self._storage_url, state.where(), newest_of(state.runs))
