"""The versions of a file that a source has read, and its present version."""

import os
from collections.abc import Iterable
from datetime import UTC, datetime

from tidegate.ports import PieceVersion, ReadPiece
from tidegate.settings import absolute
from tidegate.sources.directory import Directory
from tidegate.sources.listing import FileVersion
from tidegate.sources.manifests import ReadFile


def name_below(location: str, given: str) -> str:
    """Return a file's path relative to the source's directory, in whatever form it is given."""
    if absolute(given).startswith(f"{location}/"):
        return absolute(given).removeprefix(f"{location}/")
    return os.path.relpath(os.path.realpath(given), os.path.realpath(location)) if os.path.isabs(given) else given


def read_pieces(directory: Directory, rows: Iterable[ReadFile]) -> dict[str, ReadPiece]:
    """Return the pieces by their paths. Raise `StorageError`."""
    by_path = {row.file.path: row for row in rows}
    found = directory.current(list(by_path)) if by_path else []
    pieces = {}
    for row, now in zip(by_path.values(), found, strict=True):
        then = row.file
        known = None if now is None else _version(directory.with_checksums([now])[0])
        pieces[then.path] = ReadPiece(then.path, row.checkpoint, _version(then), known, directory.is_same(then, now))
    return pieces


def _version(file: FileVersion) -> PieceVersion:
    return PieceVersion(file.size, datetime.fromtimestamp(file.mtime_ns / 1e9, UTC), file.checksum)
