"""`FileSource(…, mode="snapshot")`: a file that is delivered as a whole repeatedly, each version replacing the last.

Decides which version is read next. A version is copied to checkpoint storage when it is first read, so that a retry or
a restore compares the same rows, even if the file was replaced since. Snapshots refer to the copies, which are deleted
with the checkpoints. `version_changes.py` compares their rows.
"""

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

from tidegate.ports import CheckpointStorage, ReadableStorage, ReadPiece, ReadSince, Segment, SourceContext
from tidegate.ports.versioned_sources import ADDED
from tidegate.protocol.facts.errors import CheckpointError, SourceUnavailableError
from tidegate.protocol.facts.records import HandleKind, Pending, Snapshot, StateHandle
from tidegate.protocol.schema.ddl import columns_of
from tidegate.sources import parsing
from tidegate.sources.dialect import text_format
from tidegate.sources.directory import Directory
from tidegate.sources.file_checks import require_same_mode, wrong
from tidegate.sources.links import Link, refuse_links
from tidegate.sources.listing import FileVersion, first_of, is_old, is_settled, looking_different
from tidegate.sources.read_errors import translate_read_error
from tidegate.sources.version_changes import VersionCopy, changes, compared, require_plausible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sources.files import FileSource as _Source
else:
    _Source = object

log = logging.getLogger("tidegate")

#: The most bytes of a version. It passes through the memory of the process that polls.
LARGEST = 1 << 30


class Versions(_Source):
    """The methods of a `FileSource` that reads versions. It is a `VersionedSource`."""

    @property
    def version_key(self) -> tuple[str, ...]:
        return tuple(self.key)

    def __post_init__(self) -> None:
        self._refuse_options()
        super().__post_init__()
        self._check()
        self.schema = f"{self.file_schema.strip()}, {ADDED}"
        is_file = self.glob == "*" and "." in self.path.rstrip("/").rpartition("/")[2]
        self._file = self.location.rpartition("/")[2] if is_file else None
        self._plausible: set[VersionCopy] = set()  # a cache, not a position: no version is counted twice
        self._counting = Lock()  # several operators read it at once

    def _refuse_options(self) -> None:
        """Raise `PipelineDefinitionError`, as `_check` does."""
        given = {
            "splits": self.splits != 1,
            "partitions": self.partitions is not None,
            "end_marker": self.end_marker is not None,
            "malformed": self.malformed != "fail",
            "schemas": bool(self.schemas),
        }
        reasons = {
            "splits": "a version is compared as a whole",
            "partitions": "a version is one file",
            "schemas": "it has the columns of its schema; evolve and aliases accept deviations",
            "end_marker": "a version replaces the one before it, and none is the last",
            "malformed": "a row that is left out of a version would be deleted, so a version is read whole or not at "
            "all",
        }
        for name in (name for name, is_given in given.items() if is_given):
            raise wrong(self, f'mode="snapshot" takes no {name}: {reasons[name]}')

    def _check(self) -> None:
        """Check key, columns and `max_deleted`. Raise `PipelineDefinitionError`."""
        if isinstance(self.key, str) or not self.key:
            raise wrong(self, 'mode="snapshot" needs the columns that identify a row, such as key=["customer"]')
        there = [name for name, _ in columns_of(self.file_schema)]
        if missing := [name for name in self.key if name not in there]:
            raise wrong(self, f"the key is {', '.join(self.key)}, but its schema has no {', '.join(missing)}")
        if taken := [name for name, _ in columns_of(ADDED) if name in map(str.lower, there)]:
            raise wrong(self, f"its schema has {', '.join(taken)}, the name of a column of changes; rename it")
        if maps := [name for name, kind in columns_of(self.file_schema) if "map<" in kind.lower().replace(" ", "")]:
            raise wrong(
                self, f"its schema has the maps {', '.join(maps)}, which cannot be compared; read them as STRING"
            )
        if not 0 <= self.max_deleted <= 1:
            raise wrong(self, f"max_deleted is {self.max_deleted}, but must be a share between 0 and 1")

    def describe(self) -> dict[str, Any]:
        description = super().describe() | {"type": "FileSource(mode=snapshot)", "key": list(self.key)}
        return description | ({} if self.max_deleted == 0.5 else {"max_deleted": self.max_deleted})

    # -- the next version

    def poll(self, split: int, restored: Snapshot | None, context: SourceContext) -> tuple[Segment | None, Snapshot]:
        """See `ports.Source`. A file that is missing or empty is no version."""
        before = restored or Snapshot()
        require_same_mode(self, before)
        position = dict(before.position or {})
        newer = self._newer(position, context)
        old = [file for file in newer if is_old(file, self._min_age, context.now)]
        taken = first_of(old[: self.max_files_per_checkpoint], context.max_bytes)
        fresh: list[StateHandle] = []
        for file in taken:
            directory, name = self._place(file.path)
            content = directory.content(file._replace(path=name))
            if content is None:  # it is being replaced, so the next poll reads it
                break
            position = _position(file if is_settled(file, context.now) else looking_different(file))
            last = fresh[-1] if fresh else next(iter(before.handles[-1:]), None)
            if last is None or _digest(content) != last.checksum:
                fresh.append(_copied(file, content, last, context, len(fresh)))
        left = newer[len(taken) :]
        self._pending[split] = Pending(len(left), "versions", sum(file.size for file in left))
        self._behind[split] = len(taken) < len(old)
        snapshot = Snapshot(tuple(fresh) or before.handles, position or None)
        return self.replay(split, restored, snapshot, context.storage), snapshot

    def is_behind(self, split: int, polled: Segment | None) -> bool:
        """Whether the poll left versions."""
        return self._behind.get(split, False)

    def replay(
        self, split: int, restored: Snapshot | None, taken: Snapshot, storage: CheckpointStorage
    ) -> Segment | None:
        last = restored.handles[-1:] if restored else ()
        fresh = _fresh(restored, taken)
        if not fresh:
            return None
        before, versions = ([list(_copy_of(handle)) for handle in handles] for handles in (last, fresh))
        reference = {"url": storage.url, "before": before, "versions": versions}
        return Segment(split, reference, sum(handle.bytes for handle in (*last, *fresh)), files=(*last, *fresh))

    def _newer(self, position: Mapping[str, Any], context: SourceContext) -> list[FileVersion]:
        """Return the files that may be versions after a position, in the order of their names."""
        last, looked = position.get("file", ""), (position.get("size"), position.get("mtime_ns"))
        found = [file for file in self._there(context) if file.size]
        late = [file.path for file in found if file.path < last and file.mtime_ns > (looked[1] or 0)]
        if late:
            log.warning("%s", _passed_over(self.location, late[0], last))
        other = [file for file in found if file.path > last or (file.path == last and file[1:3] != looked)]
        newer = sorted(other, key=lambda file: file.path)
        for file in newer:
            if file.size > LARGEST:
                raise SourceUnavailableError(
                    f"{self._shown(file.path)} has {file.size} bytes. A version is copied to the "
                    f"checkpoint storage, so that a retry reads the same rows, and may have {LARGEST} bytes. Nothing "
                    "was read. Deliver it compressed or as Parquet, then run again."
                )
        return newer

    def _there(self, context: SourceContext) -> list[FileVersion]:
        if self._file is None:
            listing = self._listing.once(0, context.checkpoint_id)
            return [file for file in listing.versions() if self._listing.is_selected(file.path)]
        directory, name = self._place(self._file)
        if directory.moved_away([name]):
            target = os.path.basename(os.path.realpath(self.location))
            refuse_links(directory.location, [Link(name, target, False)], lambda _: True)
        return [file._replace(path=self._file) for file in directory.current([name]) if file is not None]

    def _place(self, name: str) -> tuple[Directory, str]:
        """Return a file's directory, and its name there. A link that may be followed is read at its target."""
        if self._file is None:
            return Directory(self.location), name
        is_followed = self.follow_links and "://" not in self.location
        directory, _, name = (os.path.realpath(self.location) if is_followed else self.location).rpartition("/")
        return Directory(directory or "/"), name

    def _shown(self, file: str) -> str:
        return self.location if self._file is not None else f"{self.location}/{file}"

    # -- its rows

    def read(self, spark: "SparkSession", segments: Sequence[Segment], output: str = "rows") -> "DataFrame":
        """See `ports.Source`. Counts rows first, in a job of its own, to check that the versions are plausible."""
        if output != "rows" or not segments:
            rows = parsing.frame(self, spark, self.location, (), output, (), self._footers)
            return rows.selectExpr("*", *(f"cast(null as {kind}) as {name}" for name, kind in columns_of(ADDED)))
        frames = [self._changes(spark, segment) for segment in segments]
        return reduce(lambda one, more: one.unionAll(more), frames)

    def _changes(self, spark: "SparkSession", segment: Segment) -> "DataFrame":
        url = segment.reference["url"]
        before, versions = _copies(segment)

        def rows_of(version: VersionCopy) -> "DataFrame":
            file = FileVersion(version.path, version.size, 0)
            return parsing.frame(self, spark, url, [file], "rows", (), self._footers)

        try:
            with self._counting:
                if not self._plausible.issuperset(versions):
                    for version, found in compared(rows_of, self.key, before, versions).items():
                        where = f"the source of {self.location!r}"
                        require_plausible(where, self.key, self.max_deleted, self._shown(version.file), found)
                    self._plausible.update(versions)
            return changes(rows_of, self.key, before, versions)
        except CheckpointError as error:
            raise self._renamed(error, [segment]) from error

    def arrow_reader(self, segments: Sequence[Segment]) -> None:
        """Return None: versions are compared by Spark."""
        return None

    def explain(self, error: BaseException, segments: Sequence[Segment]) -> CheckpointError | None:
        for segment in segments:
            url, (before, versions) = segment.reference["url"], _copies(segment)
            paths = [version.path for version in (*before, *versions)]
            line_of = partial(self._line_in, Directory(url))
            if (explained := translate_read_error(error, url, paths, line_of)) is not None:
                return self._renamed(explained, segments)
        return None

    def _line_in(self, directory: Directory, path: str, part: int, line: int) -> int:
        return line + (directory.lines_before(path, part, text_format(self, ()).rules) if part else 0)

    def _renamed(self, error: CheckpointError, segments: Sequence[Segment]) -> CheckpointError:
        """Return an error that names the file instead of its copy."""
        message = str(error)
        for segment in segments:
            for version in chain(*_copies(segment)):
                copy = f"{segment.reference['url']}/{version.path}"
                message = message.replace(copy, self._shown(version.file))
        return type(error)(message)

    # -- versions that were read

    def read_since(
        self, split: int, restored: Snapshot | None, taken: Snapshot | None, storage: ReadableStorage
    ) -> ReadSince:
        """See `ports.RereadingSource`. A restore reads the newest version again, and none that it has replaced."""
        fresh = _fresh(restored, taken or Snapshot())
        names = sorted({handle.details["file"] for handle in fresh})
        gone = [name for name in names if self._place(name)[0].current([self._place(name)[1]]) == [None]]
        return ReadSince(len(fresh), sum(handle.bytes for handle in fresh), gone)

    def read_in(self, checkpoint_id: int, taken: Snapshot, storage: ReadableStorage) -> dict[str, int]:
        own = (handle for handle in taken.handles if handle.created_by == checkpoint_id)
        return {handle.details["file"]: handle.bytes for handle in own}

    def find_read(
        self, names: Sequence[str], taken: Sequence[Snapshot], storage: ReadableStorage
    ) -> dict[str, ReadPiece]:
        """Return nothing: a corrected file is a version like any other."""
        return {}


def _fresh(restored: Snapshot | None, taken: Snapshot) -> tuple[StateHandle, ...]:
    """Return the versions that a poll has read."""
    known = {handle.path for handle in restored.handles} if restored else set()
    return tuple(handle for handle in taken.handles if handle.path not in known)


def _copied(
    file: FileVersion, content: bytes, last: StateHandle | None, context: SourceContext, number: int
) -> StateHandle:
    """Copy a version. It is valid from when the file was written, and in any case later than the version before it."""
    name = file.path.rpartition("/")[2]
    path = f"{context.prefix}-{number}{name[name.find('.') :] if '.' in name else ''}"
    at = max(file.mtime_ns // 1000, last.details["at"] + 1 if last is not None else 0)
    details = {"file": file.path, "at": at}
    digest, id_ = _digest(content), context.checkpoint_id
    handle = StateHandle(path, HandleKind.POSITION, 0, len(content), digest, id_, details=details)
    context.storage.write(path, content)
    context.storage.verify([handle], [path])
    return handle


def _position(file: FileVersion) -> dict[str, Any]:
    """Return how the latest version looked, so that it is not taken for a newer one."""
    return {"file": file.path, "size": file.size, "mtime_ns": file.mtime_ns}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _copy_of(handle: StateHandle) -> VersionCopy:
    return VersionCopy(handle.path, handle.bytes, handle.details["file"], handle.details["at"])


def _copies(segment: Segment) -> tuple[list[VersionCopy], list[VersionCopy]]:
    """Return the version before, if there was one, and those that follow it."""
    before, versions = ([VersionCopy(*each) for each in segment.reference[name]] for name in ("before", "versions"))
    return before, versions


def _passed_over(location: str, late: str, last: str) -> str:
    return (
        f"{location} has {late}, which was written after {last} was read and comes before it by its name. It is passed "
        "over: a version replaces those before it."
    )
