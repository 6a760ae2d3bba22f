"""Rows on their way from a step or an operator to the next: Parquet files per subtask, on checkpoint storage.

A file makes the channel durable: once the upstream subtask has acknowledged, a retry reads its file instead of running
it again. A file belongs to its checkpoint only and is not carried over.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.protocol.facts.errors import StateIntegrityError
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.state.storage import open_storage


def write_exchange(
    rows: pa.Table, storage_url: str, path: str, checkpoint_id: int, details: Mapping[str, Any] | None = None
) -> StateHandle:
    """Write a `pyarrow.Table`. Raise `StorageError` if that fails."""
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer, compression="snappy")
    content = buffer.getvalue().to_pybytes()
    open_storage(storage_url).write(path, content)
    checksum = sha256(content).hexdigest()
    return StateHandle(
        path, HandleKind.EXCHANGE, rows.num_rows, len(content), checksum, checkpoint_id, details=details or {}
    )


def read_exchange(handle: StateHandle, storage_url: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows as `pyarrow.RecordBatch`es. Raise `StateIntegrityError` if the file is missing or damaged."""
    content = open_storage(storage_url).read(handle.path)
    if sha256(content).hexdigest() != handle.checksum:
        raise StateIntegrityError(
            f"{handle.path} on checkpoint storage {storage_url} differs from the file that checkpoint "
            f"{handle.created_by} wrote (by its checksum). Committed data is untouched. Abort the checkpoint and take "
            "a new one."
        )
    rows = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    yield from rows.cast(schema).to_batches()
