"""Files that are not what they were: since a checkpoint has read them, or since this one has listed them."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from tidegate.ports import ReadableStorage
from tidegate.protocol.errors import SourceChangedError
from tidegate.protocol.records import StateHandle
from tidegate.sources import manifests
from tidegate.sources.directory import Directory
from tidegate.sources.links import is_a_link_now
from tidegate.sources.listing import FileVersion


class ChangedFiles:
    """What was found out about files that were read and look different now. A cache, not a position."""

    def __init__(self) -> None:
        self._touched: set[FileVersion] = set()  # as they look now; their content is what it was

    def require_unchanged(
        self,
        directory: Directory,
        different: Iterable[FileVersion],
        read: Iterable[StateHandle],
        storage: ReadableStorage,
    ) -> None:
        """Raises `SourceChangedError` if the content of one of these files is not what was read."""
        looked_at = [file for file in different if file not in self._touched]
        known = manifests.find([file.path for file in looked_at], read, storage) if looked_at else {}
        for file in looked_at:
            row = known[file.path]
            if directory.is_same(row.file, file):
                self._touched.add(file)
            else:
                raise SourceChangedError(
                    f"{directory.location}/{file.path} has changed since checkpoint {row.checkpoint} read it: "
                    f"{difference(row.file, file)}. The rows it had then are in the state and tables, which are safe, "
                    "so nothing more was read. Put the file back as it was, with its modification time, or move it "
                    "away. Deliver a corrected or longer copy under a new name: its rows are read as new. Or take the "
                    "file as it is now, with the way back: `tidegate source replace`."
                )


def require_still_there(directory: Directory, files: Sequence[FileVersion]) -> None:
    """Raises `SourceChangedError` if one of these files is not what was listed."""
    paths = [file.path for file in files]
    for path in directory.moved_away(paths):
        raise is_a_link_now(f"{directory.location}/{path}")
    for file, now in zip(files, directory.look(paths), strict=True):
        if not directory.is_same(file, now):
            what = "is gone" if now is None else f"has changed: {difference(file, now)}"
            raise SourceChangedError(
                f"{directory.location}/{file.path} {what} since this checkpoint listed it, before its rows were read. "
                "This checkpoint has no effect. If it is still being written, write it under a name that begins with a "
                "dot, and rename it when it is complete; if it was moved away, put it back. Then run again."
            )


def difference(before: FileVersion, now: FileVersion) -> str:
    """How the two differ, for an error."""
    changes = []
    if before.size != now.size:
        changes.append(f"{before.size} bytes then, {now.size} now")
    if before.mtime_ns != now.mtime_ns:
        changes.append(f"modified {shown_time(before.mtime_ns)} then, {shown_time(now.mtime_ns)} now")
    return "; ".join(changes)


def shown_time(mtime_ns: int) -> str:
    """A time of modification for an error."""
    seconds, nanoseconds = divmod(mtime_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{nanoseconds:09d} UTC"
