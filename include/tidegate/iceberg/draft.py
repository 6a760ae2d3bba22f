"""The next metadata of a table, made from the present one and not yet visible to readers.

Snapshots are written here and not by pyiceberg's transactions. Those commit at once, and leave behind manifests
that only list deleted files.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)

from tidegate.iceberg.files import StoredFiles, read_metadata, write_metadata
from tidegate.iceberg.names import METADATA

IO = StoredFiles()

#: The bytes below which manifests are merged, and how many small ones there must be.
_SMALL, _MANY = 1 << 20, 20


@dataclass
class Draft:
    """The next metadata of a table. `base` is the file with the present one, None for a new table. `uuid` is part of
    the names of all files that are written."""

    metadata: TableMetadata
    base: str | None
    uuid: UUID
    properties: dict[str, str]

    def __post_init__(self) -> None:
        self.before = self.metadata if self.base is not None else None
        self._updates = list[TableUpdate]()
        self._manifests = 0

    @classmethod
    def of(cls, base: str, uuid: UUID, properties: dict[str, str]) -> "Draft":
        return cls(read_metadata(base), base, uuid, properties)

    @property
    def changed(self) -> bool:
        return bool(self._updates)

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """The updates that turn the present metadata into the next one."""
        return tuple(self._updates)

    def apply(self, *updates: TableUpdate) -> None:
        self.metadata = update_table_metadata(self.metadata, updates)
        self._updates += updates

    # -- references

    @property
    def head(self) -> Snapshot | None:
        """The snapshot that readers see."""
        return self.metadata.current_snapshot()

    def refer(self, name: str, snapshot_id: int) -> None:
        """Let a tag or the main branch refer to this snapshot."""
        kind = SnapshotRefType.BRANCH if name == MAIN_BRANCH else SnapshotRefType.TAG
        self.apply(SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": kind, "snapshot-id": snapshot_id}))

    def release(self, name: str) -> None:
        self.apply(RemoveSnapshotRefUpdate.model_validate({"ref-name": name}))

    def expire(self, snapshot_ids: Sequence[int]) -> None:
        if snapshot_ids:
            self.apply(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(snapshot_ids)}))

    def show(self, snapshot_id: int | None) -> None:
        """Let readers see this snapshot; None for no rows."""
        if snapshot_id is not None:
            self.refer(MAIN_BRANCH, snapshot_id)
        elif MAIN_BRANCH in self.metadata.refs:
            self.release(MAIN_BRANCH)

    # -- snapshots

    def live(self) -> list[ManifestEntry]:
        """Return the data files that readers see."""
        manifests = [each for each in self._head_manifests() if each.content is ManifestContent.DATA]
        return [entry for each in manifests for entry in each.fetch_manifest_entry(IO)]

    def append(self, files: Sequence[DataFile]) -> None:
        """Add a snapshot with more files."""
        snapshot_id = self.metadata.new_snapshot_id()
        kept = [each for each in self._head_manifests() if each.has_added_files() or each.has_existing_files()]
        added = self._by_spec(snapshot_id, map(_added(snapshot_id), files))
        self._snapshot(snapshot_id, Operation.APPEND, [*added, *self._merged(snapshot_id, kept)], files)

    def replace(self, files: Sequence[DataFile]) -> None:
        """Add a snapshot with exactly these files: new ones are added, and files that it lacks are deleted."""
        snapshot_id, there = self.metadata.new_snapshot_id(), {each.data_file.file_path: each for each in self.live()}
        wanted = {file.file_path: file for file in files}
        added = [file for path, file in wanted.items() if path not in there]
        gone = [entry for path, entry in there.items() if path not in wanted]
        kept = [entry for path, entry in there.items() if path in wanted]
        entries = [
            *map(_added(snapshot_id), added),
            *(_again(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id) for entry in kept),
            *(_again(entry, ManifestEntryStatus.DELETED, snapshot_id) for entry in gone),
        ]
        manifests = self._by_spec(snapshot_id, entries)
        operation = Operation.OVERWRITE if gone else Operation.APPEND
        self._snapshot(snapshot_id, operation, manifests, added, [entry.data_file for entry in gone])

    def _head_manifests(self) -> list[ManifestFile]:
        return [] if self.head is None else self.head.manifests(IO)

    def _merged(self, snapshot_id: int, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Merge many small manifests into one, so that their number stays small however often rows are appended."""
        found = list(manifests)
        for spec_id in self.metadata.specs():
            small = [
                each
                for each in found
                if each.content is ManifestContent.DATA
                and each.partition_spec_id == spec_id
                and each.manifest_length < _SMALL
            ]
            if len(small) < _MANY:
                continue
            entries = (entry for each in small for entry in each.fetch_manifest_entry(IO))
            existing = (_again(entry, ManifestEntryStatus.EXISTING, entry.snapshot_id) for entry in entries)
            merged = self._manifest(snapshot_id, spec_id, existing)
            found = [merged, *(each for each in found if each not in small)]
        return found

    def _by_spec(self, snapshot_id: int, entries: Iterable[ManifestEntry]) -> list[ManifestFile]:
        """Write a manifest for each partition spec of the files."""
        by_spec: dict[int, list[ManifestEntry]] = {}
        for entry in entries:
            by_spec.setdefault(entry.data_file.spec_id, []).append(entry)
        return [self._manifest(snapshot_id, spec_id, of) for spec_id, of in by_spec.items()]

    def _manifest(self, snapshot_id: int, spec_id: int, entries: Iterable[ManifestEntry]) -> ManifestFile:
        output = IO.new_output(self._file(f"{self.uuid}-m{self._manifests}.avro"))
        self._manifests += 1
        version, spec = self.metadata.format_version, self.metadata.specs()[spec_id]
        with write_manifest(version, spec, self.metadata.schema(), output, snapshot_id, "deflate") as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _snapshot(
        self,
        snapshot_id: int,
        operation: Operation,
        manifests: Sequence[ManifestFile],
        added: Sequence[DataFile],
        gone: Sequence[DataFile] = (),
    ) -> None:
        number, parent = self.metadata.next_sequence_number(), self.head
        file = self._file(f"snap-{snapshot_id}-0-{self.uuid}.avro")
        version, parent_id = self.metadata.format_version, None if parent is None else parent.snapshot_id
        with write_manifest_list(version, IO.new_output(file), snapshot_id, parent_id, number, "deflate") as writer:
            writer.add_manifests(list(manifests))
        content = {
            "snapshot-id": snapshot_id,
            "parent-snapshot-id": parent_id,
            "manifest-list": file,
            "sequence-number": number,
            "summary": self._summary(operation, added, gone, None if parent is None else parent.summary),
            "schema-id": self.metadata.current_schema_id,
        }
        snapshot = Snapshot.model_validate(content)
        self.apply(AddSnapshotUpdate(snapshot=snapshot))
        self.show(snapshot_id)

    def _summary(
        self, operation: Operation, added: Sequence[DataFile], gone: Sequence[DataFile], before: Summary | None
    ) -> Summary:
        collected, schema, specs = SnapshotSummaryCollector(), self.metadata.schema(), self.metadata.specs()
        for file in added:
            collected.add_file(file, schema, specs[file.spec_id])
        for file in gone:
            collected.remove_file(file, schema, specs[file.spec_id])
        summary = Summary(operation=operation, **collected.build(), **self.properties)
        return update_snapshot_summaries(summary, before)

    # -- written

    def write(self) -> str:
        """Write the metadata and return its file."""
        if self.before is not None:  # apply all updates again, so that the log has the present file once
            self.metadata = update_table_metadata(self.before, self.updates, metadata_location=self.base)
        file = self._file(f"{_version(self.base) + 1:05d}-{self.uuid}.metadata.json")
        write_metadata(self.metadata, file)
        return file

    def _file(self, name: str) -> str:
        place = (
            self.metadata.properties.get("write.metadata.path") or f"{self.metadata.location.rstrip('/')}/{METADATA}"
        )
        return f"{place.rstrip('/')}/{name}"


def _version(file: str | None) -> int:
    """Return the number at the beginning of a metadata file's name, which other writers count on."""
    first = "" if file is None else file.rpartition("/")[2].partition("-")[0]
    return int(first) if first.isdecimal() else -1


def _added(snapshot_id: int) -> Any:
    def entry(file: DataFile) -> ManifestEntry:
        # its sequence number is that of the snapshot, which readers take from the manifest
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=snapshot_id,
            sequence_number=None,
            file_sequence_number=None,
            data_file=file,
        )

    return entry


def _again(entry: ManifestEntry, status: ManifestEntryStatus, snapshot_id: int | None) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status,
        snapshot_id=snapshot_id,
        sequence_number=entry.sequence_number,
        file_sequence_number=entry.file_sequence_number,
        data_file=entry.data_file,
    )
