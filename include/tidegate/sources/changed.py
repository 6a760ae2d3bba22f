"""Files that have changed: since a checkpoint has read them, or since this checkpoint has listed them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tidegate.ports import ReadableStorage
from tidegate.protocol.facts.errors import SourceChangedError
from tidegate.protocol.facts.records import StateHandle
from tidegate.sources import manifests
from tidegate.sources.directory import Directory
from tidegate.sources.links import is_a_link_now
from tidegate.sources.listing import FileVersion, is_settled, looking_different
from tidegate.sources.manifests import ReadFile


class Compared(NamedTuple):
    """Files that were read and look different now. Those in `touched` have the content that was read. Those in `grown`
    were empty when they were read, and are read for the first time now."""

    touched: list[ReadFile]
    grown: list[FileVersion]


class ChangedFiles:
    """Compares files that were read and look different now. `has_rows` tells whether the content of a file has a
    row."""

    def __init__(self, has_rows: Callable[[str, bytes], bool]) -> None:
        self._has_rows = has_rows
        self._touched: dict[FileVersion, ReadFile] = {}  # a cache, not a position: nothing is compared twice

    def compare(
        self,
        directory: Directory,
        different: Iterable[FileVersion],
        read: Iterable[StateHandle],
        storage: ReadableStorage,
        now: datetime | None = None,
    ) -> Compared:
        """Compare files with their content when they were read. Raise `SourceChangedError` if it differs. A file that
        had not settled when it was read is compared once it has."""
        result = Compared([], [])
        files = list(different)
        unknown = [file.path for file in files if file not in self._touched]
        known = manifests.find(unknown, read, storage) if unknown else {}
        for file in files:
            if file not in self._touched:
                row = known[file.path]
                if row.file.is_at(looking_different(file)) and not is_settled(file, now):
                    continue
                if self.has_grown(directory, row.file, file):
                    result.grown.append(file)
                    continue
                if not directory.is_same(row.file, file):
                    raise _has_changed(directory, row, file)
                self._touched[file] = ReadFile(file._replace(checksum=row.file.checksum), row.checkpoint, True)
            result.touched.append(self._touched[file])
        return result

    def read_again(
        self,
        directory: Directory,
        files: Sequence[FileVersion],
        before: Iterable[StateHandle],
        storage: ReadableStorage,
    ) -> list[tuple[FileVersion, FileVersion | None]]:
        """Return those of these files that a source reads again from a position, each as it is now. Files that the
        position lists were read, in whatever version, unless they had no row then."""
        paths = [file.path for file in files]
        known = manifests.find(paths, before, storage) if files else {}
        seen = zip(files, directory.current(paths) if files else [], strict=True)
        return [
            (file, now)
            for file, now in seen
            if file.path not in known or (now is not None and self.has_grown(directory, known[file.path].file, now))
        ]

    def has_grown(self, directory: Directory, before: FileVersion, now: FileVersion) -> bool:
        """Whether a file that had no row when it was read has some now, so that it is read for the first time."""
        beginning = directory.begins_with(before, now)
        return beginning is not None and not self._has_rows(now.path, beginning)


def read_by_link(
    unread: Iterable[FileVersion], found_by: Mapping[str, str], read: Iterable[StateHandle], storage: ReadableStorage
) -> list[ReadFile]:
    """Return those of these files that were read under the name where a link to them is now. They were moved since, and
    a link was left in their place."""
    names = {found_by[file.path]: file for file in unread if file.path in found_by}
    known = manifests.find(list(names), read, storage) if names else {}
    return [
        ReadFile(file._replace(checksum=known[name].file.checksum), known[name].checkpoint, True)
        for name, file in names.items()
        if name in known and known[name].file.is_at(file._replace(path=name))
    ]


def _has_changed(directory: Directory, row: ReadFile, now: FileVersion) -> SourceChangedError:
    return SourceChangedError(
        f"{directory.location}/{now.path} has changed since checkpoint {row.checkpoint} read it: "
        f"{difference(row.file, now)}. The rows it had then are in the state and tables, which are safe, "
        "so nothing more was read. Put the file back as it was, with its modification time, or move it "
        "away. Deliver a corrected or longer copy under a new name: its rows are read as new. Or take the "
        "file as it is now with `tidegate source replace`."
    )


def require_still_there(directory: Directory, files: Sequence[FileVersion]) -> None:
    """Check that these files are as listed. Raise `SourceChangedError` if one is not."""
    paths = [file.path for file in files]
    for path in directory.moved_away(paths):
        raise is_a_link_now(f"{directory.location}/{path}")
    for file, now in zip(files, directory.current(paths), strict=True):
        if not directory.is_same(file, now):
            what = "is gone" if now is None else f"has changed: {difference(file, now)}"
            raise SourceChangedError(
                f"{directory.location}/{file.path} {what} since this checkpoint listed it, before its rows were read. "
                "This checkpoint has no effect. If it is still being written, write it under a name that begins with a "
                "dot, and rename it when it is complete; if it was moved away, put it back. Then run again."
            )


def difference(before: FileVersion, now: FileVersion) -> str:
    """Return how the two differ, for an error."""
    changes = []
    if before.is_at(looking_different(now)):
        return f"another content of the same size, written in the same second ({shown_time(now.mtime_ns)})"
    if before.size != now.size:
        changes.append(f"{before.size} bytes then, {now.size} now")
    if before.mtime_ns != now.mtime_ns:
        changes.append(f"modified {shown_time(before.mtime_ns)} then, {shown_time(now.mtime_ns)} now")
    return "; ".join(changes)


def shown_time(mtime_ns: int) -> str:
    """Return a time of modification for an error."""
    seconds, nanoseconds = divmod(mtime_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{nanoseconds:09d} UTC"
