"""Runs: immutable Parquet files of state, sorted by unsigned hash. This module lays them out and writes them.

`opening.py` reads them back. `lookup.py` and `slices.py` decide which row of a key is current.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.protocol.facts.handles import layout_version
from tidegate.protocol.facts.records import HandleKind, StateHandle
from tidegate.protocol.schema.expiry import TTL
from tidegate.state import mapped_copies
from tidegate.state.columns import flags, hashes_of_column, one_chunk
from tidegate.state.expiring import Span
from tidegate.state.hashing_file import HashingFile
from tidegate.state.layout import HASH, TOMBSTONE, StateLayout
from tidegate.state.spec import SubtaskSpec
from tidegate.state.storage import open_storage

FORMAT = 1
METADATA = b"tidegate.state"
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20


def run_schema(layout: StateLayout, tombstones: bool) -> pa.Schema:
    """Return the `pyarrow.Schema` of a run's columns."""
    fields: Sequence[pa.Field] = [pa.field(HASH, pa.int64(), nullable=False), *layout.stored]
    return pa.schema([*fields, pa.field(TOMBSTONE, pa.bool_(), nullable=False)] if tombstones else fields)


@contextmanager
def writing_run(spec: SubtaskSpec, schema: pa.Schema, span: Span | None = None) -> Iterator["RunWriter"]:
    """Write a run at `spec.prefix`. After the block the writer has its `handle`. `span` holds times of its rows that
    are already known.

    The local cache gets a copy, so that the next checkpoint need not download the run. A small run on local storage
    needs none. Raise `StorageError` if the run cannot be written; then no file is left of it.
    """
    storage = open_storage(spec.storage_url)
    copy = mapped_copies.Addition(spec.cache_dir, schema, mapped_copies.IN_PLACE_MEMORY if storage.is_local else 0)
    try:
        with storage.open_output(f"{spec.prefix}.parquet") as file:
            writer = RunWriter(spec, HashingFile(file), schema, copy, span or Span.of(spec))
            try:
                yield writer
                writer.finish()
            except BaseException:
                writer.abandon()
                raise
        storage.verify([writer.handle], [writer.handle.path])  # from here on, others may read the copy instead
        copy.keep(writer.handle.checksum)
    finally:
        copy.drop()


class RunWriter:
    """A writer of rows sorted by unsigned hash. Each `write` becomes one or more row groups.

    Integers are delta-packed, which is faster to write than any codec, and smaller than LZ4.
    """

    handle: StateHandle

    def __init__(
        self, spec: SubtaskSpec, file: HashingFile, schema: pa.Schema, copy: mapped_copies.Addition, span: Span
    ) -> None:
        self._spec, self._file, self._schema, self._copy, self._span = spec, file, schema, copy, span
        self._rows = self._min_hash = self._max_hash = 0
        packed = [field.name for field in schema if _is_packed(field.type)]
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(file, mode="w"),
            schema.with_metadata({METADATA: _metadata(spec)}),
            compression="lz4",
            use_dictionary=False,
            write_statistics=[HASH],
            column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
        )

    def write(self, table: pa.Table) -> None:
        """Write a `pyarrow.Table` of the run's schema."""
        if table.num_rows == 0:
            return
        hashes = hashes_of_column(table.column(HASH))
        self._min_hash = self._min_hash if self._rows else int(hashes[0])
        self._max_hash = int(hashes[-1])
        self._rows += table.num_rows
        deleted = flags(one_chunk(table.column(TOMBSTONE))) if TOMBSTONE in self._schema.names else None
        self._span.add(table, None if deleted is None else ~deleted)
        width = max(1, table.nbytes // table.num_rows)
        step = max(1, min(_GROUP_ROWS, _GROUP_BYTES // width))
        for start in range(0, table.num_rows, step):
            for batch in table.slice(start, step).combine_chunks().to_batches():
                self._parquet.write_table(pa.Table.from_batches([batch]), row_group_size=step)
                self._copy.write(batch)

    def finish(self) -> None:
        self._parquet.close()
        self.handle = StateHandle(
            path=f"{self._spec.prefix}.parquet",
            kind=HandleKind.RUN,
            rows=self._rows,
            bytes=self._file.size,
            checksum=self._file.checksum(),
            created_by=self._spec.checkpoint_id,
            key_groups=self._spec.key_groups,
            details={
                "format": FORMAT,
                "layout": self._spec.layout.fingerprint,
                **({"layout_version": self._spec.layout.version} if self._spec.layout.version else {}),
                "max_parallelism": self._spec.max_parallelism,
                "min_hash": f"{self._min_hash:016x}",
                "max_hash": f"{self._max_hash:016x}",
                "tombstones": TOMBSTONE in self._schema.names,
                **({TTL: times} if (times := self._span.recorded()) else {}),
            },
        )

    def abandon(self) -> None:
        """Close the writer without writing anything more to the file."""
        self._file.deaf = True
        self._parquet.close()


def _metadata(spec: SubtaskSpec) -> bytes:
    content = {
        "format": FORMAT,
        "layout": spec.layout.to_json(),
        "max_parallelism": spec.max_parallelism,
        "pipeline": spec.pipeline,
        "operator": spec.operator,
        "checkpoint": spec.checkpoint_id,
    }
    return json.dumps(content).encode()


def newest_of(runs: Iterable[StateHandle]) -> StateHandle:
    """Return the run with the newest layout, to which the rows of all others can be converted."""
    return max(runs, key=lambda run: (layout_version(run), run.created_by))


def _is_packed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))
