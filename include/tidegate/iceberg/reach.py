"""The files that a table refers to from any of its snapshots, branches and tags."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from tidegate.iceberg.files import StoredFiles, read_metadata

_IO = StoredFiles()
_MOST_READ = 256


@dataclass(frozen=True, slots=True)
class Reach:
    """The metadata and data files that some snapshots refer to, with their names there."""

    metadata: frozenset[str]
    data: frozenset[str]


@lru_cache(maxsize=8)
def files_of(location: str) -> Reach:
    """Return all files that the table with this metadata file refers to, including that file. They never change."""
    metadata = read_metadata(location)
    manifests = manifests_of(metadata.snapshots)
    lists = {each.manifest_list for each in metadata.snapshots}
    logged = (each.metadata_file for each in metadata.metadata_log)
    statistics = (each.statistics_path for each in metadata.statistics)
    return Reach(frozenset({location, *lists, *manifests, *logged, *statistics}), frozenset(_data(manifests.values())))


def released(before: TableMetadata, after: TableMetadata) -> list[str]:
    """Return the files that a table no longer refers to after a change, apart from its present metadata file."""
    left = {each.snapshot_id for each in after.snapshots}
    gone = [each for each in before.snapshots if each.snapshot_id not in left]
    logged = {each.metadata_file for each in before.metadata_log} - {each.metadata_file for each in after.metadata_log}
    if not gone:
        return sorted(logged)
    kept, lost = manifests_of(after.snapshots), manifests_of(gone)
    lists = {each.manifest_list for each in gone} - {each.manifest_list for each in after.snapshots}
    only = {path: each for path, each in lost.items() if path not in kept}
    data = _data(only.values())
    if data:
        data -= _data(kept.values())
    return sorted(logged | lists | set(only) | data)


def manifests_of(snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
    return {each.manifest_path: each for snapshot in snapshots for each in snapshot.manifests(_IO)}


def _data(manifests: Iterable[ManifestFile]) -> set[str]:
    return {path for manifest in manifests for path in _paths(manifest)}


#: The files of recently read manifests. They never change.
_READ: dict[str, frozenset[str]] = {}


def _paths(manifest: ManifestFile) -> frozenset[str]:
    """Return the data files that a manifest lists."""
    known = _READ.get(manifest.manifest_path)
    if known is None:
        known = frozenset(entry.data_file.file_path for entry in manifest.fetch_manifest_entry(_IO))
        if len(_READ) >= _MOST_READ:
            _READ.clear()
        _READ[manifest.manifest_path] = known
    return known
