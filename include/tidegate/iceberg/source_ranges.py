"""The data files between two positions of a reader: the snapshots of a table, oldest first, and their files.

A position is JSON: the `snapshot` up to which rows were read, and if only a part of that snapshot was read, the number
of its `files`, in order of their paths. With `whole`, the whole table is read as of that snapshot. `after` is the
position after which the first range begins. The snapshot's `number` and the table's `rows` as of it identify its
successor once it has expired, because writers then no longer record the predecessor of that one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from tidegate.iceberg.files import StoredFiles, read_metadata
from tidegate.iceberg.names import TableName
from tidegate.protocol.facts.errors import SourceChangedError, SourceUnavailableError
from tidegate.sources.read_errors import AS_BEFORE

_IO = StoredFiles()
#: A metadata file never changes.
metadata_at = lru_cache(maxsize=8)(read_metadata)

Position = Mapping[str, Any]
EARLIEST = "earliest"
Start = str | int | datetime


@dataclass(frozen=True)
class Limits:
    """The limits of one range. It has at least one file, if there is any."""

    rows: int | None
    bytes: int | None

    def allow(self, rows: int, size: int) -> bool:
        return (self.rows is None or rows <= self.rows) and (self.bytes is None or size <= self.bytes)


@dataclass(frozen=True)
class Polled:
    """The end of a range, and the files that it leaves for the next ones."""

    end: Position | None
    left: Sequence[DataFile]


@dataclass(frozen=True)
class History:
    """A table as its metadata is now. With `skip`, snapshots that remove or replace rows are passed over."""

    name: TableName
    metadata: TableMetadata
    skip: bool

    def poll(self, position: Position | None, start: Start, limits: Limits) -> Polled:
        """Find the next range. Raise `SourceChangedError`, `SourceUnavailableError`."""
        head = self.metadata.current_snapshot()
        if head is None:
            if position is not None:
                raise self._led_back(position["snapshot"])
            return Polled(None, ())
        if position is None and start == EARLIEST:
            return self._bounded(None, [(head, whole_files(self.name, head))], limits, {"whole": True})
        if position is not None and position.get("whole"):
            snapshot = self._snapshot(position["snapshot"])
            return self._bounded(position, [(snapshot, whole_files(self.name, snapshot))], limits, {"whole": True})
        if position is not None:
            return self._bounded(position, self._appended(position, head), limits, {})
        after = self._after(start)
        polled = self._bounded(after, self._appended(after, head), limits, {})
        return Polled(None if polled.end in (None, after) else {**polled.end, "after": after}, polled.left)

    def between(self, start: Position | None, end: Position) -> list[DataFile]:
        """Return the files of a range that `poll` found. Raise `SourceChangedError`, `SourceUnavailableError`."""
        begin = start
        if start is None and "after" in end:
            begin = end["after"]
        last = self._snapshot(end["snapshot"])
        if begin is None or begin.get("whole"):
            return whole_files(self.name, last)[_done(begin) : end.get("files")]
        found: list[DataFile] = []
        for snapshot, files in self._appended(begin, last):
            first = _done(begin) if snapshot.snapshot_id == begin["snapshot"] else 0
            found += files[first : end.get("files") if snapshot is last else None]
        return found

    def _bounded(
        self,
        position: Position | None,
        groups: Sequence[tuple[Snapshot, list[DataFile]]],
        limits: Limits,
        partly: Mapping[str, Any],
    ) -> Polled:
        rows = size = taken = 0
        end = position
        for at, (snapshot, files) in enumerate(groups):
            is_begun = position is not None and snapshot.snapshot_id == position["snapshot"]
            for number in range(_done(position) if is_begun else 0, len(files)):
                rows, size = rows + files[number].record_count, size + files[number].file_size_in_bytes
                if taken and not limits.allow(rows, size):
                    left = [*files[number:], *(file for _, later in groups[at + 1 :] for file in later)]
                    if number:
                        end = {**_at(snapshot), "files": number, **partly}
                    return Polled(end, left)
                taken += 1
            if files or not partly:  # an empty table is read as a whole once it has files
                end = _at(snapshot)
        return Polled(end, ())

    def _appended(self, position: Position, last: Snapshot) -> list[tuple[Snapshot, list[DataFile]]]:
        """Return the snapshots after a position with their appended files, up to one that may not be passed over."""
        found: list[tuple[Snapshot, list[DataFile]]] = []
        for snapshot in self._lineage(position, last):
            if self._is_overwrite(snapshot):
                if not self.skip and not found:
                    raise self._overwritten(snapshot)
                if not self.skip:
                    break
                found.append((snapshot, []))
            else:
                found.append((snapshot, [] if _is_rewrite(snapshot) else appended_files(snapshot)))
        return found

    def _lineage(self, position: Position, last: Snapshot) -> list[Snapshot]:
        """Return snapshots, oldest first. The position's own snapshot is the first one if only a part of it was
        read."""
        found, base, current = list[Snapshot](), position["snapshot"], last
        while current.snapshot_id != base:
            found.append(current)
            if current.parent_snapshot_id is None:
                if self._follows(current, position):
                    return found[::-1]
                raise self._led_back(base) if _is_first(current) else self._lost(base, current)
            if current.parent_snapshot_id == base and not position.get("files"):
                return found[::-1]
            parent = self.metadata.snapshot_by_id(current.parent_snapshot_id)
            if parent is None:
                raise self._lost(base, current)
            current = parent
        return ([*found, current] if position.get("files") else found)[::-1]

    def _follows(self, snapshot: Snapshot, position: Position) -> bool:
        """Whether a snapshot without a parent directly follows the position, which has no snapshot or an expired
        one."""
        if position["snapshot"] is None:
            return _is_first(snapshot)
        if position.get("files") or self.metadata.snapshot_by_id(position["snapshot"]) is not None:
            return False
        rows, number = position.get("rows"), snapshot.sequence_number or 0
        return rows is not None and rows == _rows(snapshot, before=True) and number == position.get("number", 0) + 1

    def _after(self, start: Start) -> Position:
        if isinstance(start, datetime):
            moment, current = start.timestamp() * 1000, self.metadata.current_snapshot()
            while current is not None and current.timestamp_ms > moment:
                if current.parent_snapshot_id is None and _is_first(current):
                    return {"snapshot": None}
                parent = self.metadata.snapshot_by_id(current.parent_snapshot_id or 0)
                if parent is None:
                    raise self._lost(None, current)
                current = parent
            assert current is not None
            return _at(current)
        if isinstance(start, int):
            return _at(self._snapshot(start))
        ref = self.metadata.refs.get(start)
        if ref is None:
            raise SourceUnavailableError(
                f"Table {self.name} has no tag {start!r}, after which it is to be read. {AS_BEFORE}Tag that snapshot, "
                f"or begin elsewhere by start=. There are: {', '.join(sorted(self.metadata.refs))}."
            )
        return _at(self._snapshot(ref.snapshot_id))

    def _snapshot(self, snapshot_id: int) -> Snapshot:
        found = self.metadata.snapshot_by_id(snapshot_id)
        if found is None:
            raise self._lost(snapshot_id, None)
        return found

    def _is_overwrite(self, snapshot: Snapshot) -> bool:
        return snapshot.summary is not None and snapshot.summary.operation in (Operation.OVERWRITE, Operation.DELETE)

    def _overwritten(self, snapshot: Snapshot) -> SourceChangedError:
        return SourceChangedError(
            f"Snapshot {snapshot.snapshot_id} of table {self.name}, made {_when(snapshot)}, removes or replaces rows. "
            f'{AS_BEFORE}With on_overwrite="skip" it is passed over, together with the rows that it adds. To read the '
            'table anew, give the source another name, and start="earliest".'
        )

    def _led_back(self, snapshot_id: int | None) -> SourceChangedError:
        return SourceChangedError(
            f"Table {self.name} does not go on from snapshot {snapshot_id}, up to which it was read: it was taken back "
            f"to an earlier one, or made anew. {AS_BEFORE}Restore this pipeline to a checkpoint that has read less, or "
            "undo that change of the table."
        )

    def _lost(self, base: int | None, oldest: Snapshot | None) -> SourceUnavailableError:
        lost = f"snapshot {base} has expired" if oldest is None else f"snapshots that follow {base} have expired"
        there = "" if oldest is None else f" The oldest that is left is {oldest.snapshot_id}, made {_when(oldest)}."
        return SourceUnavailableError(
            f"Table {self.name}: {lost}, so the rows appended there cannot be determined any more.{there} "
            f"{AS_BEFORE}Keep snapshots until they are read: CheckpointConfig(retained=…) of the pipeline that writes "
            "the table sets how many. To go on without these rows, give the source another name, and start= a snapshot "
            "that is left."
        )


def appended_files(snapshot: Snapshot) -> list[DataFile]:
    """Return the files that the snapshot has added, by path."""
    own = [each for each in snapshot.manifests(_IO) if each.added_snapshot_id == snapshot.snapshot_id]
    entries = (
        entry
        for manifest in own
        if manifest.content is ManifestContent.DATA
        for entry in manifest.fetch_manifest_entry(_IO)
    )
    added = (each for each in entries if each.status is ManifestEntryStatus.ADDED)
    return sorted((each.data_file for each in added), key=_path)


def whole_files(name: TableName, snapshot: Snapshot) -> list[DataFile]:
    """Return all files of the table as of the snapshot, by path. Raise `SourceChangedError`."""
    manifests = snapshot.manifests(_IO)
    if any(each.content is ManifestContent.DELETES for each in manifests):
        raise SourceChangedError(
            f"Table {name} has files of deleted rows, which IcebergSource does not read. {AS_BEFORE}Have the table "
            "compacted, so that these rows are gone from its files, or begin after a snapshot by start=."
        )
    return sorted((entry.data_file for each in manifests for entry in each.fetch_manifest_entry(_IO)), key=_path)


def _is_rewrite(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


def _at(snapshot: Snapshot) -> Position:
    """Return the position after a snapshot."""
    return {"snapshot": snapshot.snapshot_id, "number": snapshot.sequence_number, "rows": _rows(snapshot)}


def _rows(snapshot: Snapshot, before: bool = False) -> int | None:
    """Return the number of the table's rows as of a snapshot, or before it appended some; None if it is not
    recorded."""
    summary = snapshot.summary
    total = None if summary is None else summary["total-records"]
    if summary is None or total is None:
        return None
    if not before:
        return int(total)
    return int(total) - int(summary["added-records"] or 0) + int(summary["deleted-records"] or 0)


def _is_first(snapshot: Snapshot) -> bool:
    """Whether the table had no snapshot before this one, as far as that is known."""
    return snapshot.parent_snapshot_id is None and (snapshot.sequence_number or 0) == 1


def _path(file: DataFile) -> str:
    return str(file.file_path)


def _done(position: Position | None) -> int:
    return 0 if position is None else int(position.get("files") or 0)


def _when(snapshot: Snapshot) -> str:
    return f"{datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
