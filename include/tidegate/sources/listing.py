"""The listed files of a source, the order in which they are read, and the split to which each belongs.

Discovery has no high-water mark: a file that arrives late with an old modification time is as new as any other.
`directory.py` lists the files, `manifests.py` records which files were read, and `files.py` reads their rows.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from tidegate.sources.arrow_columns import integers, numbers_of
from tidegate.sources.links import Link

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_EPOCH = datetime.fromtimestamp(0, UTC)
_SECOND = 1_000_000_000
#: The second in which a file is written, and the possible difference of clocks.
_SETTLES = 5 * _SECOND


class FileVersion(NamedTuple):
    """One file as it was listed: `path` relative to the source's directory, `size` in bytes, `mtime_ns` since the
    epoch, and for a small file that was read the BLAKE2 digest of its content."""

    path: str
    size: int
    mtime_ns: int
    checksum: str | None = None

    def is_at(self, now: "FileVersion | None") -> bool:
        """Whether it has the same path, size and time."""
        return now is not None and self[:3] == now[:3]


@dataclass(frozen=True, eq=False)
class Listing:
    """Files by columns: all below a directory, finished or not, or those that a manifest lists. There may be a million,
    and all but a few of a directory were read before."""

    paths: "pa.StringArray"  # relative to the directory
    sizes: "npt.NDArray[Any]"  # in bytes, as numpy's integers
    mtimes: "npt.NDArray[Any]"  # in nanoseconds since the epoch, as numpy's integers
    links: Sequence[Link] = ()  # links whose targets are not among these files
    found_by: Mapping[str, str] = field(default_factory=dict)  # the names of links that led to some of them

    def versions(self) -> list[FileVersion]:
        """Return an object for each file. Call it for a part of them, if there may be many."""
        return list(map(FileVersion, self.paths.to_pylist(), self.sizes.tolist(), self.mtimes.tolist()))

    def take(self, rows: "npt.NDArray[Any]") -> "Listing":
        """Return the files in these rows. Adjacent rows are not copied."""
        import numpy as np

        if len(rows) and (np.diff(rows) == 1).all():
            part = slice(int(rows[0]), int(rows[-1]) + 1)
            return Listing(self.paths[part], self.sizes[part], self.mtimes[part])
        return Listing(self.paths.take(integers(rows)), self.sizes[rows], self.mtimes[rows])

    def is_same(self, other: "Listing") -> bool:
        """Whether nothing has changed between the two. Takes some milliseconds for a million files."""
        import numpy as np

        numbers = ((self.sizes, other.sizes), (self.mtimes, other.mtimes))
        if (self.links, self.found_by) != (other.links, other.found_by):
            return False
        return all(np.array_equal(*pair) for pair in numbers) and bool(self.paths.equals(other.paths))

    def same_ends(self, other: "Listing") -> tuple[int, int]:
        """Return how many files are the same in both from the beginning, and how many of the others from the end."""
        shorter = min(len(self.paths), len(other.paths))
        begin = _ones(self._same(0, other, 0, shorter))
        rest = shorter - begin
        same = self._same(len(self.paths) - rest, other, len(other.paths) - rest, rest)
        return begin, _ones(same[::-1])

    def _same(self, begin: int, other: "Listing", other_begin: int, count: int) -> "npt.NDArray[Any]":
        """Compare `count` files of each listing, from these rows on."""
        import pyarrow as pa
        import pyarrow.compute as pc

        own, others = slice(begin, begin + count), slice(other_begin, other_begin + count)
        paths = numbers_of(pc.cast(pc.equal(self.paths[own], other.paths[others]), pa.uint8()))
        numbers = (self.sizes[own] == other.sizes[others]) & (self.mtimes[own] == other.mtimes[others])
        same: npt.NDArray[Any] = numbers & (paths != 0)
        return same


def joined(parts: Sequence[Listing]) -> Listing:
    """Return the files of all parts, one part after the other. There must be at least one part."""
    import numpy as np
    import pyarrow as pa

    if len(parts) == 1:
        return parts[0]
    paths, sizes, mtimes = zip(*((part.paths, part.sizes, part.mtimes) for part in parts), strict=True)
    return Listing(pa.concat_arrays(paths), np.concatenate(sizes), np.concatenate(mtimes))


def _ones(values: "npt.NDArray[Any]") -> int:
    """Return the number of values before the first zero."""
    return len(values) if values.all() else int(values.argmin())


def in_reading_order(files: Iterable[FileVersion]) -> list[FileVersion]:
    return sorted(files, key=lambda file: (file.mtime_ns, file.path))


def first_of(files: Sequence[FileVersion], max_bytes: int | None) -> Sequence[FileVersion]:
    """Return the first files, as many as have `max_bytes` together, and at least one."""
    if max_bytes is None:
        return files
    before = accumulate((file.size for file in files), initial=0)
    return [
        file for file, bytes_before in zip(files, before, strict=False) if not bytes_before or bytes_before < max_bytes
    ]


def is_settled(file: FileVersion, now: datetime | None) -> bool:
    """Whether any later write to a file gives it another time of modification. Object stores have whole seconds, and
    clocks of their own."""
    if now is None or file.mtime_ns % _SECOND:
        return True
    return _nanoseconds(now) - file.mtime_ns >= _SETTLES


def looking_different(file: FileVersion) -> FileVersion:
    """Return the record of a file that has not settled and whose content is known. It differs, so it is compared
    later."""
    return file._replace(mtime_ns=file.mtime_ns - 1)


def is_old(file: FileVersion, min_age: int | None, now: datetime | None) -> bool:
    """Whether a file was modified at least `min_age` nanoseconds ago. A time further in the future than `min_age` comes
    from a wrong clock, and counts as old."""
    if min_age is None or now is None:
        return True
    return abs(_nanoseconds(now) - file.mtime_ns) >= min_age


def _nanoseconds(now: datetime) -> int:
    return (now - _EPOCH) // timedelta(microseconds=1) * 1000


def split_of(path: str, splits: int) -> int:
    """Return the split of a file: a function of its relative path alone, the same in every process and release."""
    if splits == 1:
        return 0
    return int.from_bytes(hashlib.blake2b(path.encode(), digest_size=8).digest(), "big") % splits
