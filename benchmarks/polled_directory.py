"""A directory of many files that a source has read, and polls of it.

What a poll takes beside listing is what is left when the filesystem's listing is taken out: a stopwatch stands between
`FileSource` and pyarrow's filesystem.
"""

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs

from tidegate.ports import SourceContext
from tidegate.protocol.records import Snapshot
from tidegate.sources import files as sources
from tidegate.sources import manifests
from tidegate.sources.files import FileSource
from tidegate.sources.listing import Directory, FileVersion, split_of
from tidegate.state.storage import ArrowCheckpointStorage

#: In this order. *first* is the first poll of a process, which reads what its position refers to.
SCENES = ("first, nothing new", "nothing new", "one new file", "one new file, all others moved away")
#: What is beside the filesystem's listing, in seconds and seconds of processor; of that, seconds for taking names,
#: sizes and times out of what the filesystem gave; and the listing itself.
_FIGURES = ("seconds", "processor", "taken_in", "listing", "listing_processor")
_DAYS = 365
_BATCHES = 40  # in which the files were read


@dataclass
class Figures:
    """By scene and figure, the median and the largest."""

    files: int
    splits: int
    scenes: dict[str, dict[str, tuple[float, float]]]


class Stopwatch:
    """A filesystem that knows how long listing took."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    seconds = processor = 0.0

    def get_file_info(self, asked: Any) -> Any:
        clock, processor = time.perf_counter(), time.process_time()
        try:
            return self._filesystem.get_file_info(asked)
        finally:
            if isinstance(asked, fs.FileSelector):
                Stopwatch.seconds += time.perf_counter() - clock
                Stopwatch.processor += time.process_time() - processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filesystem, name)


class TimedDirectory(Directory):
    """Stands for `Directory`."""

    seconds = 0.0

    def files(self, recursive: bool = True) -> Any:
        clock = time.perf_counter()
        listing = super().files(recursive)
        TimedDirectory.seconds += time.perf_counter() - clock
        return listing


class TimedFileSystem:
    """Stands for `pyarrow.fs.FileSystem`."""

    @staticmethod
    def from_uri(uri: str) -> tuple[Stopwatch, str]:
        filesystem, path = _FileSystem.from_uri(uri)
        return Stopwatch(filesystem), path


_FileSystem = fs.FileSystem


class Polls:
    """A source, its position, and the polls of it that count."""

    def __init__(self, root: Path, splits: int) -> None:
        self.landing, self.splits = root / "landing", splits
        self.storage = ArrowCheckpointStorage(str(root / "checkpoints"))
        self.snapshots = [Snapshot((), {"splits": splits, "files": 0}) for _ in range(splits)]
        self.checkpoint = 0

    def source(self) -> FileSource:
        return FileSource(str(self.landing), format="parquet", schema="key BIGINT", splits=self.splits)

    def context(self, split: int) -> SourceContext:
        beside = [snapshot for other, snapshot in enumerate(self.snapshots) if other != split]
        return SourceContext(self.storage, self.checkpoint, f"p/chk-{self.checkpoint}/in/{split}-1-x", beside)

    def has_read(self, files: Sequence[FileVersion]) -> None:
        """As checkpoints did that read these files, so many at a time."""
        step = max(1, len(files) // _BATCHES)
        for start in range(0, len(files), step):
            self.checkpoint += 1
            for split in range(self.splits):
                fresh = [file for file in files[start : start + step] if split_of(file.path, self.splits) == split]
                before = self.snapshots[split]
                count = (before.position or {})["files"] + len(fresh)
                handles = manifests.extend(before.handles, fresh, self.context(split), None)
                self.snapshots[split] = Snapshot(handles, {"splits": self.splits, "files": count})

    def poll(self, source: FileSource, expected: int) -> tuple[float, ...]:
        """All splits once; the figures are those of `_FIGURES`."""
        self.checkpoint += 1
        Stopwatch.seconds = Stopwatch.processor = TimedDirectory.seconds = 0.0
        clock, processor = time.perf_counter(), time.process_time()
        taken = [source.poll(n, self.snapshots[n], self.context(n)) for n in range(self.splits)]
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
        read = sum(len(segment.reference["files"]) for segment, _ in taken if segment is not None)
        assert read == expected, (read, expected)
        self.snapshots = [snapshot for _, snapshot in taken]
        beside = clock - Stopwatch.seconds, processor - Stopwatch.processor
        return *beside, TimedDirectory.seconds - Stopwatch.seconds, Stopwatch.seconds, Stopwatch.processor


def measure(root: Path, files: int, splits: int, times: int) -> Figures:
    fs.FileSystem, vars(sources)["Directory"] = TimedFileSystem, TimedDirectory
    try:
        polls = Polls(root, splits)
        polls.has_read(list(landed(polls.landing, files)))
        return Figures(files, splits, {scene: figures(taken) for scene, taken in scenes(polls, times).items()})
    finally:
        fs.FileSystem, vars(sources)["Directory"] = _FileSystem, Directory


def scenes(polls: Polls, times: int) -> dict[str, list[tuple[float, ...]]]:
    first = [polls.poll(polls.source(), 0) for _ in range(times)]
    source = polls.source()
    polls.poll(source, 0)
    again = [polls.poll(source, 0) for _ in range(times)]
    arriving = [polls.poll(source, arrive(polls.landing, n)) for n in range(times)]
    polls.landing.rename(polls.landing.with_name("archive"))
    alone = [polls.poll(source, arrive(polls.landing, n)) for n in range(times, 2 * times)]
    return dict(zip(SCENES, (first, again, arriving, alone), strict=True))


def landed(landing: Path, files: int) -> Iterator[FileVersion]:
    """Files of a year, without content: polls look at names, sizes and times only."""
    for day in range(_DAYS):
        directory = landing / f"day={day:03}"
        directory.mkdir(parents=True)
        for number in range(files * day // _DAYS, files * (day + 1) // _DAYS):
            name = f"part-{number:08}.parquet"
            descriptor = os.open(directory / name, os.O_CREAT | os.O_WRONLY)
            yield FileVersion(f"{directory.name}/{name}", 0, os.fstat(descriptor).st_mtime_ns, os.urandom(16).hex())
            os.close(descriptor)


def arrive(landing: Path, number: int) -> int:
    directory = landing / f"day={number * 37 % _DAYS:03}"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"new-{number}.parquet").touch()
    return 1


def figures(taken: Sequence[tuple[float, ...]]) -> dict[str, tuple[float, float]]:
    columns = zip(_FIGURES, zip(*taken, strict=True), strict=True)
    return {name: (statistics.median(values), max(values)) for name, values in columns}
