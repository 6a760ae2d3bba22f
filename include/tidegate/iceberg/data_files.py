"""Staged files as entries of a table, and the metadata of a new table."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record

from tidegate.iceberg.draft import Draft
from tidegate.iceberg.files import read_metadata
from tidegate.iceberg.partitions import PartitionBy, from_json
from tidegate.iceberg.writing import PARTITION, SPEC, KnownTable
from tidegate.ports import StateHandle
from tidegate.state.storage import open_storage

_READ_AT_ONCE = 16  # files of an object store: each read waits for the network

#: Properties of a new table. Old metadata files are then deleted by the commits of other writers, too.
_PROPERTIES = {
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "5",
    "write.parquet.compression-codec": "zstd",
}


def footers(root: str, staged: Sequence[StateHandle]) -> dict[str, pq.FileMetaData]:
    """Read the footers of the files, by path. Raise `StateIntegrityError`, `StorageError`."""
    storage, paths = open_storage(root), [handle.path for handle in staged]

    def read(path: str) -> pq.FileMetaData:
        with storage.open_input(path) as opened:
            return pq.read_metadata(opened)

    if storage.is_local:
        return dict(zip(paths, map(read, paths), strict=True))
    with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
        return dict(zip(paths, pool.map(read, paths), strict=True))


def schema_of(footer: pq.FileMetaData) -> Schema:
    """Return the columns of a file, with their numbers."""
    return pyarrow_to_schema(footer.schema.to_arrow_schema())


def known(metadata: TableMetadata) -> KnownTable:
    """Return the properties of a table that the writers of its files need."""
    spec = metadata.spec()
    fields = [(field.source_id, str(field.transform)) for field in spec.fields]
    return KnownTable(schema_to_pyarrow(metadata.schema()), metadata.last_column_id, spec.spec_id, fields)


def known_at(location: str) -> KnownTable:
    """Return the properties of the table that has this metadata file."""
    return known(read_metadata(location))


def new_table(location: str, schema: Schema, fields: Sequence[PartitionBy]) -> TableMetadata:
    """Return the metadata of a new table."""
    spec = PartitionSpec(
        *(
            PartitionField(
                source_id=schema.find_field(each.column).field_id,
                field_id=1000 + at,
                transform=parse_transform(each.transform),
                name=each.name,
            )
            for at, each in enumerate(fields)
        )
    )
    content = {
        "location": location,
        "schemas": [schema],
        "last-column-id": schema.highest_field_id,
        "current-schema-id": schema.schema_id,
        "partition-specs": [spec],
        "default-spec-id": spec.spec_id,
        "last-partition-id": spec.last_assigned_field_id,
        "sort-orders": [UNSORTED_SORT_ORDER],
        "default-sort-order-id": UNSORTED_SORT_ORDER.order_id,
        "properties": dict(_PROPERTIES),
    }
    return TableMetadataV2.model_validate(content)


def listed(
    root: str, draft: Draft, staged: Sequence[StateHandle], read: Mapping[str, pq.FileMetaData]
) -> Iterator[DataFile]:
    """Yield the files as entries of the table. `root` is the prefix of their paths there."""
    metadata = draft.metadata
    for handle in staged:
        schema = schema_of(read[handle.path])
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=read[handle.path],
            stats_columns=compute_statistics_plan(schema, metadata.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{root}/{handle.path}",
            file_format=FileFormat.PARQUET,
            partition=partition_of(handle, metadata),
            file_size_in_bytes=handle.bytes,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        file.spec_id = int(handle.details.get(SPEC, 0))
        yield file


def partition_of(handle: StateHandle, metadata: TableMetadata) -> Record:
    spec, schema = metadata.specs()[int(handle.details.get(SPEC, 0))], metadata.schema()
    types = (field.transform.result_type(schema.find_type(field.source_id)) for field in spec.fields)
    return Record(*(from_json(value, kind) for value, kind in zip(handle.details[PARTITION], types, strict=True)))
