"""A table as of a checkpoint: the files of its snapshot, which never change."""

from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.table.metadata import TableMetadata

from tidegate.iceberg import keeping
from tidegate.iceberg.files import StoredFiles, read_metadata
from tidegate.iceberg.names import BEFORE, TAG, WITHDRAWN, TableName
from tidegate.iceberg.places import location_now
from tidegate.iceberg.source_rows import DataFiles
from tidegate.ports import TableFiles
from tidegate.postgres_sink import positions
from tidegate.postgres_sink.databases import connected
from tidegate.protocol.facts.errors import CheckpointInDoubtError, CheckpointNotRetainedError

_IO = StoredFiles()


@dataclass(frozen=True)
class SnapshotRows:
    """The rows of a snapshot as `ports.ArrowRows`, read by pyiceberg when they are needed."""

    location: str
    snapshot_id: int

    @property
    def schema(self) -> pa.Schema:
        return schema_to_pyarrow(self._table().scan(snapshot_id=self.snapshot_id).projection(), include_field_ids=False)

    def to_table(self, columns: list[str]) -> pa.Table:
        """See `ports.ArrowRows`."""
        scan = self._table().scan(snapshot_id=self.snapshot_id, selected_fields=tuple(columns))
        wanted = [self.schema.field(name) for name in columns]
        return scan.to_arrow().select(columns).cast(pa.schema(wanted))

    def _table(self) -> StaticTable:
        where = ("static-table", self.location)
        return StaticTable(where, read_metadata(self.location), self.location, DataFiles(), NoopCatalog(where[0]))


def read_at(name: TableName, checkpoint_id: int) -> TableFiles | SnapshotRows:
    """See `ports.ReadableAtSink`. Raise `CheckpointInDoubtError`, `CheckpointNotRetainedError`."""
    with connected(None, name.target) as connection:
        newest, _ = positions.numbers(connection, name.target)
    location = location_now(name)
    if location is None or newest < checkpoint_id:
        raise CheckpointInDoubtError(
            f"Table {name} cannot be read as of checkpoint {checkpoint_id}: it does not exist, or does not show it "
            "yet. Nothing was changed. Read it again."
        )
    metadata = read_metadata(location)
    snapshot_id = _snapshot_of(name, metadata, checkpoint_id)
    if snapshot_id is None:
        return TableFiles((), schema_to_pyarrow(metadata.schema(), include_field_ids=False))
    snapshot = metadata.snapshot_by_id(snapshot_id)
    assert snapshot is not None
    manifests = snapshot.manifests(_IO)
    if any(each.content is ManifestContent.DELETES for each in manifests) or not _is_by_name(metadata.schemas):
        return SnapshotRows(location, snapshot_id)
    entries = [entry for each in manifests for entry in each.fetch_manifest_entry(_IO)]
    entries.sort(key=lambda entry: (entry.sequence_number or 0, entry.data_file.file_path))
    schema = metadata.schema_by_id(snapshot.schema_id) if snapshot.schema_id is not None else None
    columns = schema_to_pyarrow(schema or metadata.schema(), include_field_ids=False)
    return TableFiles(tuple(entry.data_file.file_path.removeprefix("file://") for entry in entries), columns)


def _snapshot_of(name: TableName, metadata: TableMetadata, checkpoint_id: int) -> int | None:
    refs = metadata.refs
    found = refs.get(f"{TAG}{checkpoint_id}") or refs.get(f"{WITHDRAWN}{checkpoint_id}")
    if found is not None:
        return found.snapshot_id
    if checkpoint_id < int(metadata.properties.get(keeping.FIRST, 0)):
        return refs[BEFORE].snapshot_id if BEFORE in refs else None
    raise CheckpointNotRetainedError(
        f"Table {name} cannot be read as of checkpoint {checkpoint_id} any more: its snapshot has expired. Nothing was "
        "changed. Read a checkpoint that is retained. CheckpointConfig(retained=…) sets how many are kept."
    )


def _is_by_name(schemas: list[Schema]) -> bool:
    """Whether no column was ever renamed, so that files can be read by the names of their columns."""
    pairs = {(schema.find_field(name).field_id, name) for schema in schemas for name in schema.column_names}
    return len(pairs) == len({number for number, _ in pairs}) == len({name for _, name in pairs})
