"""Divides files, and parts of large ones, among Spark tasks."""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidegate.sources.decoding import is_splittable
from tidegate.sources.listing import FileVersion
from tidegate.sources.read_errors import carried

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs as pafs

    from tidegate.sources.reading import TextFormat

_SMALL, _LARGE = 4 << 20, 128 << 20  # bytes that justify a Spark task, and bytes that fill one
_OPENING = 1 << 20  # the cost of opening a file, as bytes that could be read in that time


class Part(NamedTuple):
    """A file from byte `start` up to the first line that begins at or after `end`; None: to the end of the file."""

    path: str
    start: int = 0
    end: int | None = None


def packed(files: Sequence[FileVersion], form: "TextFormat | None", tasks: int) -> list[tuple[Part, ...]]:
    """Divide files into work for about `tasks` Spark tasks or more, none much larger than a full Spark task. Without a
    form the files are not cut."""
    size = max(_SMALL, min(_LARGE, sum(file.size for file in files) // max(tasks, 1)))
    weighed: list[tuple[int, Part]] = []
    for file in files:
        whole = form is None or form.multiline or not is_splittable(file.path, form.encoding)
        cuts = [0] if whole else list(range(0, max(file.size - size // 2, 1), size))
        for start, end in zip(cuts, [*cuts[1:], None], strict=True):
            weighed.append(((file.size if end is None else end) - start + _OPENING, Part(file.path, start, end)))
    total = sum(weight for weight, _ in weighed)
    wanted = max(-(-total // _LARGE), min(tasks, -(-total // _SMALL)))
    bins: list[list[Part]] = [[] for _ in range(min(len(weighed), wanted))]
    load = [(0, index) for index in range(len(bins))]
    for weight, part in sorted(weighed, key=lambda each: -each[0]):
        lightest, index = heapq.heappop(load)
        bins[index].append(part)
        heapq.heappush(load, (lightest + weight, index))
    return [tuple(parts) for parts in bins]


def parts_of(
    location: str, bins: Sequence[tuple[Part, ...]], batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[tuple[pafs.FileSystem, str, Part]]":
    """Yield the parts that a Spark task reads, each with the file system and root of their location. Rows are numbers
    of bins."""
    from pyarrow import fs

    with carried(location):
        filesystem, root = fs.FileSystem.from_uri(location)
    for batch in batches:
        for index in batch.column(0).to_pylist():
            for part in bins[index]:
                yield filesystem, root.rstrip("/"), part
