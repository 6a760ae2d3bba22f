"""Rows of data files in the columns of a source's schema, even if the table has renamed them since. Runs on executors,
which need pyiceberg for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as of
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.manifest import DataFile, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from tidegate.iceberg.columns import id_of, widens
from tidegate.iceberg.files import Stored, StoredFiles, opened
from tidegate.sources.range_source import RangeSource


class _Opened(Stored):
    """A data file, read in parts as needed."""

    def open(self, seekable: bool = True) -> Any:
        return self._input()

    @contextmanager
    def _input(self) -> Iterator[Any]:
        storage, name = opened(self.location)
        with storage.open_input(name) as file:
            yield file


class DataFiles(StoredFiles):
    """pyiceberg's access to data files, which may be large."""

    def new_input(self, location: str) -> Stored:
        return _Opened(location)


@dataclass
class IcebergFiles(RangeSource):
    """Data files of a table, each of which is a range that ends with its path. `described` is the description of the
    source that found them."""

    metadata: TableMetadata
    columns: Schema
    described: Mapping[str, Any]
    files: Mapping[str, DataFile] = field(default_factory=dict)

    @classmethod
    def of(
        cls, metadata: TableMetadata, names: Sequence[str], described: Mapping[str, Any], files: Sequence[DataFile]
    ) -> "IcebergFiles":
        """Make a source of the files, with the columns of these names."""
        by_path = {file.file_path: file for file in files}
        return cls(_light(metadata), columns_named(metadata, names), described, by_path)

    def read_between(self, split: int, start: Any, end: Any) -> Iterator[pa.RecordBatch]:
        file, columns = self.files[end], schema_to_pyarrow(self.columns)
        storage, name = opened(end)
        with storage.open_input(name) as source:
            parquet = pq.ParquetFile(source) if file.file_format is FileFormat.PARQUET else None
            there = None if parquet is None else self._there(parquet.schema_arrow, columns)
            if parquet is not None and there is not None:
                for batch in parquet.iter_batches(columns=list(there.values())):
                    yield _renamed(batch, columns, there)
                return
        scan = ArrowScan(self.metadata, DataFiles(), self.columns, AlwaysTrue())
        yield from scan.to_record_batches([FileScanTask(file)])

    def _there(self, file: pa.Schema, wanted: pa.Schema) -> dict[str, str] | None:
        """Map the wanted columns to those of a file; a column that the file lacks is null. Return None if more of
        Iceberg's rules apply to them. pyiceberg knows all rules, but reads a null list of structs as an empty one."""
        by_number, found = {id_of(each): each for each in file}, dict[str, str]()
        with_rules = {each.source_id for spec in self.metadata.partition_specs for each in spec.fields}
        with_rules |= {each.field_id for each in self.columns.fields if each.initial_default is not None}
        for column, target in zip(self.columns.fields, wanted, strict=True):
            there = by_number.get(column.field_id)
            if there is not None and _is_read_as(there, target):
                found[target.name] = there.name
            elif there is not None or None in by_number or column.field_id in with_rules:
                return None
        return found

    def describe(self) -> dict[str, Any]:
        return dict(self.described)

    def _range(self, split: int, start: Any, end: Any) -> str:
        return f"file {end}"


def _is_read_as(there: pa.Field, wanted: pa.Field) -> bool:
    """Whether a column of a file has the wanted type or a narrower one, with the same numbers and names inside of
    it."""
    return _shape(there.type) == _shape(wanted.type) or widens(there.type, wanted.type)


def _shape(kind: pa.DataType) -> Any:
    if of.is_struct(kind):
        return [(id_of(each), each.name, _shape(each.type)) for each in kind]
    if of.is_map(kind):
        return [(id_of(each), _shape(each.type)) for each in (kind.key_field, kind.item_field)]
    if of.is_nested(kind):
        return (id_of(kind.value_field), _shape(kind.value_type))
    return str(kind).removeprefix("large_")


def _renamed(batch: pa.RecordBatch, columns: pa.Schema, there: Mapping[str, str]) -> pa.RecordBatch:
    arrays = [
        batch.column(there[each.name]) if each.name in there else pa.nulls(batch.num_rows, each.type)
        for each in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=columns.names)


def columns_named(metadata: TableMetadata, names: Sequence[str]) -> Schema:
    """Return the table's columns of these present or former names, with their present types and the names given. A name
    that the table never had is left out."""
    now = {each.field_id: each for each in metadata.schema().fields}
    numbers: dict[str, int] = {}
    former: dict[int, NestedField] = {}
    others = [each for each in metadata.schemas if each.schema_id != metadata.current_schema_id]
    for schema in (*sorted(others, key=lambda each: each.schema_id), metadata.schema()):
        for each in schema.fields:
            numbers[each.name], former[each.field_id] = each.field_id, each
    found = ((name, numbers[name]) for name in names if name in numbers)
    columns = ((name, now.get(number) or former[number]) for name, number in found)
    # Null in files that were written before the column existed.
    return Schema(*(each.model_copy(update={"name": name, "required": False}) for name, each in columns))


def _light(metadata: TableMetadata) -> TableMetadata:
    """Return only the metadata that a reader of files needs: the columns and the partitioning of files."""
    gone: dict[str, Any] = {"snapshots": [], "snapshot_log": [], "metadata_log": [], "refs": {}, "statistics": []}
    return metadata.model_copy(update=gone)
